"use strict";
// The page's figures and switches. What it shows is in the page: tables as HTML, figures as JSON; nothing is loaded.
(function () {
  const FONT = getComputedStyle(document.body).fontFamily;
  const PAPER_PX = 660; // A4 between the margins of the style sheet
  const all = (selector, within) => Array.from((within || document).querySelectorAll(selector));

  // ---- figures
  const data = document.getElementById("figures");
  const figures = data && typeof Plotly !== "undefined" ? JSON.parse(data.textContent) : {};
  const config = {
    responsive: true,
    displaylogo: false,
    modeBarButtonsToRemove: ["select2d", "lasso2d"],
  };

  // Room for the legend below the axes: plotly sets its entries in columns as wide as the longest.
  function height(figure, width) {
    const names = figure.data.filter((trace) => trace.showlegend !== false).map((trace) => trace.name);
    figure.layout.shapes.forEach((shape) => names.push(shape.name));
    const widest = Math.max(0, ...names.map((name) => name.length)) * 7 + 50;
    const columns = Math.max(1, Math.floor((width - 40) / widest));
    return 360 + 20 * Math.ceil(names.length / columns);
  }

  function draw(place) {
    const figure = figures[place.dataset.figure];
    const layout = Object.assign({}, figure.layout, {
      autosize: true,
      height: height(figure, place.clientWidth),
      margin: { l: 40, r: 16, t: 16, b: 40 },
      font: { family: FONT, size: 12, color: "#1c2430" },
      paper_bgcolor: "#fff",
      plot_bgcolor: "#fff",
      hoverlabel: { align: "left", namelength: -1 },
      showlegend: true,
      legend: { orientation: "h", x: 0, xanchor: "left", y: 0, yref: "container", yanchor: "bottom" },
      // A finger that meets a figure is scrolling the page.
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    });
    const image = { format: "svg", filename: place.dataset.figure };
    Plotly.newPlot(place, figure.data, layout, Object.assign({ toImageButtonOptions: image }, config));
  }
  // One figure at a time, so that the page answers while it draws.
  const plots = all(".plot");
  const waiting = plots.filter((place) => figures[place.dataset.figure]);
  const drawn = () => plots.filter((place) => place._fullLayout);
  function drawNext() {
    const place = waiting.shift();
    if (place) {
      draw(place);
      setTimeout(drawNext);
    } else {
      document.body.dataset.drawn = String(drawn().length);
      showCurves();
    }
  }

  function onPaper() {
    while (waiting.length) draw(waiting.shift());
    all("details").forEach((part) => { part.open = true; });
    drawn().forEach((place) => Plotly.relayout(place, {
      autosize: false, width: PAPER_PX, height: height(figures[place.dataset.figure], PAPER_PX),
    }));
  }
  function onScreen() {
    drawn().forEach((place) => Plotly.relayout(place, {
      autosize: true, width: null, height: height(figures[place.dataset.figure], place.parentElement.clientWidth),
    }));
  }
  addEventListener("beforeprint", onPaper);
  addEventListener("afterprint", onScreen);

  // ---- the switches above the cost tables
  const tier = document.getElementById("switch-tier");
  const currency = document.getElementById("switch-currency");
  const end = document.getElementById("switch-end");
  const blocks = all("#cost .table[data-currency]");
  const ranges = all("#cost [data-low]").map((cell) => ({ cell: cell, both: cell.textContent }));

  const option = () => (tier && tier.value !== "" ? tier.selectedOptions[0].dataset : null);

  function showTier() {
    const chosen = option();
    blocks.forEach((block) => {
      const paid = !currency || currency.value === "" || currency.value === block.dataset.currency;
      block.hidden = !paid || (chosen !== null && chosen.quote !== block.dataset.quote);
      all("[data-tier]", block).forEach((cell) => {
        cell.hidden = chosen !== null && cell.dataset.tier !== chosen.tier;
      });
    });
    all("option[data-currency]", tier).forEach((each) => {
      each.hidden = Boolean(currency && currency.value !== "" && each.dataset.currency !== currency.value);
    });
    showCurves();
  }
  // The figure of costs follows: the tier's curve alone, or all where the figure does not have it.
  function showCurves() {
    const chosen = option();
    drawn().filter((place) => place.dataset.figure === "cost").forEach((place) => {
      const names = place.data.map((trace) => trace.meta);
      const known = chosen !== null && names.includes(chosen.curve);
      const visible = names.map((name) => (!known || name === chosen.curve ? true : "legendonly"));
      Plotly.restyle(place, { visible: visible });
    });
  }
  function showEnd() {
    ranges.forEach((range) => {
      range.cell.textContent = end.value === "" ? range.both : range.cell.dataset[end.value];
    });
  }
  if (tier) {
    tier.addEventListener("change", showTier);
    end.addEventListener("change", showEnd);
    // A browser may restore what was chosen before the page was loaded again.
    showTier();
    showEnd();
  }
  if (currency) {
    currency.addEventListener("change", () => {
      const chosen = option();
      if (chosen && currency.value !== "" && chosen.currency !== currency.value) tier.value = "";
      showTier();
    });
  }
  drawNext();
})();
