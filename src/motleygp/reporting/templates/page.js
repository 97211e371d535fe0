"use strict";
// Figures are drawn as they come near the window, and all of them before printing.
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const places = [...document.querySelectorAll(".plot")];
  const touch = matchMedia("(pointer: coarse)").matches;
  const config = {
    displaylogo: false,
    displayModeBar: false,
    responsive: true,
    doubleClick: "reset",
  };

  // "@grey_band" stands for the page's colour --grey-band.
  const coloured = (value, style) => {
    if (typeof value === "string" && value.startsWith("@")) {
      return style.getPropertyValue("--" + value.slice(1).replace("_", "-")).trim();
    }
    if (Array.isArray(value)) return value.map((entry) => coloured(entry, style));
    if (value !== null && typeof value === "object") {
      const entries = Object.entries(value);
      return Object.fromEntries(entries.map(([k, v]) => [k, coloured(v, style)]));
    }
    return value;
  };

  const draw = (place) => {
    const style = getComputedStyle(document.documentElement);
    const { data, layout } = coloured(figures[Number(place.dataset.figure)], style);
    layout.width = place.clientWidth;
    // On a touch screen, dragging scrolls the page and must not zoom.
    if (touch) layout.dragmode = false;
    return Plotly.react(place, data, layout, config).then(() => {
      place.dataset.drawn = "yes";
    });
  };
  const redraw = () => places.filter((p) => p.dataset.drawn).forEach(draw);

  const observer = new IntersectionObserver(
    (entries) => {
      for (const entry of entries.filter((e) => e.isIntersecting)) {
        observer.unobserve(entry.target);
        draw(entry.target);
      }
    },
    { rootMargin: "400px" },
  );
  places.forEach((place) => observer.observe(place));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  matchMedia("print").addEventListener("change", redraw);
  addEventListener("beforeprint", () => places.forEach(draw));
  addEventListener("resize", redraw);
})();
