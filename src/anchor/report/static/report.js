// Puts the parts together: the packed data of the page into its sections.
'use strict'
;(() => {
  const A = window.anchor
  const at = (id) => document.getElementById(id)

  A.drawOverview = (data, choose, chosen) => {
    const curve = (points, name) => ({ name, structures: [0, ...points.map((p) => p[0]), data.proposed], value: [0, ...points.map((p) => p[1]), points.length ? points.at(-1)[1] : 0] })
    const chart = (id, options) => {
      const host = at(id)
      if (!host) return
      const some = options.series.some((s) => s.value.some((v) => v !== null))
      some ? A.lineChart(host, { xLabel: 'structures proposed', until: data.proposed, ...options }) : host.replaceChildren(A.el('p', { class: 'note' }, 'Nothing to draw yet.'))
    }
    chart('found', { series: [curve(data.found.msun, 'new and near the hull (MSUN)'), curve(data.found.sun, 'new and on the hull (SUN)')], yLabel: 'found so far', steps: true })
    chart('rates', { series: data.curves.rates, yLabel: '% of proposed', percent: true })
    chart('terms', { series: data.curves.terms, yLabel: 'mean' })
    if (data.curves.known.length) chart('known', { series: data.curves.known, yLabel: '% of valid', percent: true })
    if (data.curves.control.length) chart('entropy', { series: data.curves.control, yLabel: 'mean of steps', target: data.entropy_target })
    if (at('energies')) A.histogram(at('energies'), data.histogram, data.limits)
    if (at('time')) A.timeBar(at('time'), data.seconds)
    return at('elements') ? A.periodicTable(at('elements'), data.elements, { choose, chosen }) : null
  }

  A.drawReport = (data) => {
    const table = A.findsTable(at('table'), data)
    let paint = null
    paint = A.drawOverview(data, (symbol) => table.toggle(symbol), () => table.elements)
    at('table').addEventListener('input', () => paint?.())
    A.data = data
    return table
  }

  // One crystal alone, for notebooks.
  A.drawCrystal = (crystal) => A.showCrystal(at('crystal'), crystal)

  A.start = async (draw) => {
    A.recallTheme()
    at('theme')?.addEventListener('click', () => A.setTheme(A.isDark() ? 'light' : 'dark'))
    try {
      A.elements = await A.unpack(at('element-data').textContent)
      draw(await A.unpack(at('campaign-data').textContent))
      document.documentElement.dataset.ready = 'yes'
    } catch (error) {
      if (at('fault')) at('fault').textContent = `This browser cannot draw the report (${error.message}); one of 2023 or later can. The numbers above are complete.`
      throw error
    }
  }
})()
