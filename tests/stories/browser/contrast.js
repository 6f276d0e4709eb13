// What cannot be read or seen well, one line each: text with less contrast against what is behind it than 4.5, 3
// where it is large, and parts of pictures with less than 3 (WCAG 2.2, 1.4.3 and 1.4.11).
(() => {
  const parsed = (colour) => {
    const [r, g, b, a = 1] = colour.match(/[\d.]+/g).map(Number);
    return { rgb: [r, g, b], a };
  };
  const over = (top, a, under) => top.map((c, i) => c * a + under[i] * (1 - a));
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const behind = (element) => {
    if (!element) return [255, 255, 255];
    const { rgb, a } = parsed(getComputedStyle(element).backgroundColor);
    return a === 0 ? behind(element.parentElement) : over(rgb, a, behind(element.parentElement));
  };
  const amiss = [];
  const check = (element, colour, least, what) => {
    const { rgb, a } = parsed(colour);
    const paper = behind(element);
    const found = contrast(over(rgb, a * getComputedStyle(element).opacity, paper), paper);
    if (found < least) amiss.push(`${found.toFixed(2)} < ${least}: ${what}`);
  };
  for (const element of document.body.querySelectorAll("*")) {
    if (!element.checkVisibility() || element.closest("title")) continue;
    const style = getComputedStyle(element);
    const drawing = element instanceof SVGElement;
    const own = [...element.childNodes].filter((n) => n.nodeType === Node.TEXT_NODE);
    const words = own.map((n) => n.data.trim()).join(" ").trim();
    if (words) {
      const large = parseFloat(style.fontSize) >= (style.fontWeight >= 700 ? 18.66 : 24);
      check(element, drawing ? style.fill : style.color, large ? 3 : 4.5, words);
    } else if (drawing && element.matches("rect, path, line:not(.axis)")) {
      const colour = style.stroke === "none" ? style.fill : style.stroke;
      check(element, colour, 3, `${element.tagName} ${element.getAttribute("class")}`);
    } else if (element.matches(".dot")) {
      check(element.parentElement, style.backgroundColor, 3, `dot of ${element.parentElement.innerText}`);
    }
  }
  return amiss;
})();
