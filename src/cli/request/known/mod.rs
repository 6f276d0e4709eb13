//! What is known beyond the configuration: a model's dimensions by its name, the memory of a GPU by its type.
//!
//! Rule: nothing here fails a run. What is not known stays unknown; `estimate` says why.

mod bare;
mod complete;
mod told;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::core::config::parse_data;
use crate::core::recipe::Setting;
use crate::core::request::NamedText;
use crate::io::hf_cache;
use crate::io::library::{Library, LibraryFolder};
use crate::view::CommandFailure;
use oomctl_base::{Origin, Problem, Value};
use oomctl_memory::{
    Capacity, ContextSize, Dimensions, GpuTable, ModelEntry, ModelTable, Unknown, any_context,
    capacity, context, place_of, processor, read_dimensions,
};

pub use bare::filled;
pub use complete::{ENVIRONMENT, complete, model_knob};
pub use told::{gpu_sizes, gpu_unknown, sources, why_unknown};

/// A model that is known.
pub struct KnownModel {
    /// Its dimensions.
    pub dimensions: Dimensions,
    /// The file that they were read from, as shown to the user.
    pub path: String,
    /// The file's text, or the line in a table.
    place: Result<String, u32>,
    /// The model of a table that a folder, or a copy of another organisation, has the name of.
    taken_for: Option<String>,
}

impl KnownModel {
    /// What its file says besides dimensions, in sentences.
    pub fn remarks(&self) -> Vec<String> {
        let quantised = self.dimensions.quantised.iter();
        let quantised = quantised.map(|how| format!("its weights are quantised: {how}"));
        let others = self.dimensions.remarks.iter().cloned();
        let taken = self.taken_for.iter();
        let taken = taken.map(|model| format!("oomctl assumes {model}, by its name"));
        taken.chain(quantised).chain(others).collect()
    }

    fn origin(&self, key: &str) -> Origin {
        let (line, column) = match &self.place {
            Ok(text) => place_of(text, key),
            Err(line) => (*line, 1),
        };
        Origin::file(&self.path, line, column)
    }

    fn settings(&self) -> BTreeMap<String, Setting> {
        let knobs = self.dimensions.knobs().into_iter();
        let setting = |(knob, value, key): (&str, Value, &str)| {
            let origin = self.origin(key);
            (knob.to_owned(), Setting { value, origin })
        };
        knobs.map(setting).collect()
    }
}

/// Tables and places to look into.
pub struct LookupTables<'a> {
    library: &'a Library,
    workdir: &'a Path,
    cache: Option<PathBuf>,
    gpus: OnceCell<Vec<(String, GpuTable)>>,
}

impl<'a> LookupTables<'a> {
    /// The tables of a library, and the models on this machine's disks.
    pub fn new(library: &'a Library, workdir: &'a Path) -> Self {
        Self {
            library,
            workdir,
            cache: hf_cache::cache(|name| std::env::var_os(name)),
            gpus: OnceCell::new(),
        }
    }

    /// The same for a job with these variables: its program looks for models where they say.
    pub fn of_job(mut self, environment: &Value) -> Self {
        if let Value::Map(variables) = environment {
            self.cache = hf_cache::cache(|name| {
                let own = variables.get(name).map(OsString::from);
                own.or_else(|| std::env::var_os(name))
            });
        }
        self
    }

    /// The model of this name: its `config.json` in a folder or in the hub's cache, else the tables, else the one model of
    /// the tables whose name ends as this one does; `None` where none has it.
    pub fn model(&self, name: &str) -> Result<Option<KnownModel>, CommandFailure> {
        let Some(file) = hf_cache::find(name, self.workdir, self.cache.as_deref())? else {
            return Ok(match self.of_tables(name)? {
                Some(model) => Some(model),
                None => self.of_last_part(name)?,
            });
        };
        let path = file.path.display().to_string();
        let dimensions = read_dimensions(&file.text).map_err(|e| fault(&path, &file.text, &e))?;
        Ok(Some(KnownModel {
            dimensions,
            path,
            place: Ok(file.text),
            taken_for: None,
        }))
    }

    fn of_tables(&self, name: &str) -> Result<Option<KnownModel>, CommandFailure> {
        for (source, table) in self.models_with(name)? {
            if let Some(entry) = table.find(name) {
                return of_entry(&source, entry, None).map(Some);
            }
        }
        Ok(None)
    }

    /// A folder, or another organisation's copy, that has the name of one model of the tables.
    fn of_last_part(&self, name: &str) -> Result<Option<KnownModel>, CommandFailure> {
        let last = hf_cache::model_name(name);
        let tables = self.models_with(last)?;
        let mut found = tables.iter().flat_map(|(source, table)| {
            let named = table.of_any_organisation(last);
            named.map(move |(whole, entry)| (source, whole, entry))
        });
        match (found.next(), found.next()) {
            (Some((source, whole, entry)), None) => {
                of_entry(source, entry, Some(whole.to_owned())).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The tables of models in which a name stands; the others are not parsed.
    fn models_with(&self, name: &str) -> Result<Vec<(NamedText, ModelTable)>, CommandFailure> {
        let mut tables = Vec::new();
        for shelf_name in self.library.names(LibraryFolder::Models) {
            let source = self.library.get(LibraryFolder::Models, &shelf_name)?;
            let text = source.text.to_ascii_lowercase();
            if text.contains(&name.to_ascii_lowercase()) {
                let table = parsed(&source)?;
                tables.push((source, table));
            }
        }
        Ok(tables)
    }

    /// What the tables say of a type of GPU, with the file.
    pub fn gpu(&self, name: &str) -> Result<Option<(Capacity, String)>, CommandFailure> {
        let found = self.tables_once()?.iter().find_map(|(path, table)| {
            let found = capacity([table].into_iter(), name)?;
            Some((found, path.clone()))
        });
        Ok(found)
    }

    /// Compute capability and multiprocessors of a type of GPU, where the tables have them.
    pub fn processor(&self, name: &str) -> Result<Option<(String, u16)>, CommandFailure> {
        let tables = self.tables_once()?;
        let found = processor(tables.iter().map(|(_, table)| table), name);
        Ok(found.map(|(capability, count)| (capability.to_owned(), count)))
    }

    /// What CUDA's context takes of a type of GPU; `None` where nothing was published. The second is that of all cards.
    pub fn context(
        &self,
        name: &str,
    ) -> Result<(Option<ContextSize>, Option<ContextSize>), CommandFailure> {
        let tables = self.tables_once()?;
        let all = || tables.iter().map(|(_, table)| table);
        Ok((context(all(), name), any_context(all())))
    }

    fn tables_once(&self) -> Result<&Vec<(String, GpuTable)>, CommandFailure> {
        if let Some(tables) = self.gpus.get() {
            return Ok(tables);
        }
        let tables = self.gpu_tables()?;
        Ok(self.gpus.get_or_init(|| tables))
    }

    fn gpu_tables(&self) -> Result<Vec<(String, GpuTable)>, CommandFailure> {
        let read = |name: &String| {
            let source = self.library.get(LibraryFolder::Gpus, name)?;
            let table = parsed(&source)?;
            Ok((source.path, table))
        };
        self.library
            .names(LibraryFolder::Gpus)
            .iter()
            .map(read)
            .collect()
    }

    /// Where a model was looked for that is not known.
    pub fn where_looked(&self, name: &str) -> String {
        let cache = match &self.cache {
            Some(cache) if hf_cache::is_name(name) => {
                format!("it is not in {}, and ", cache.display())
            }
            _ => String::new(),
        };
        let folder = self.workdir.join(name);
        format!(
            "there is no {}, {cache}it is not in the model tables",
            folder.join("config.json").display()
        )
    }
}

fn of_entry(
    source: &NamedText,
    entry: &ModelEntry,
    taken_for: Option<String>,
) -> Result<KnownModel, CommandFailure> {
    let line = entry.line();
    let fault = |e: Unknown| CommandFailure::configuration(format!("{}:{line}: {e}", source.path));
    Ok(KnownModel {
        dimensions: entry.dimensions().map_err(fault)?,
        path: source.path.clone(),
        place: Err(line),
        taken_for,
    })
}

fn parsed<T: DeserializeOwned>(source: &NamedText) -> Result<T, CommandFailure> {
    parse_data(&source.path, &source.text).map_err(CommandFailure::from)
}

/// A fault of a `config.json`, with its place.
fn fault(path: &str, text: &str, unknown: &Unknown) -> CommandFailure {
    let (line, column) = place_of(text, &unknown.field);
    let origin = Origin::file(path, line, column);
    let what = format!("the dimensions of the model cannot be read: {unknown}");
    Problem::new(what)
        .at(unknown.field.clone(), origin)
        .hint("give them as model.layers, model.hidden, … and model.params under `knobs:`")
        .into()
}
