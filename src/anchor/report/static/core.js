// What all parts of the report share. Classic scripts: they run from a file on disk, where modules may not.
'use strict'
window.anchor = window.anchor || {}

;(() => {
  const A = window.anchor
  const SVG = 'http://www.w3.org/2000/svg'

  // Inverse of `anchor.report.data.pack`: base64 of gzip, as text.
  A.inflate = async (base64) => {
    const bytes = Uint8Array.from(atob(base64.trim()), (c) => c.charCodeAt(0))
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))
    return new Response(stream).text()
  }
  A.unpack = async (base64) => JSON.parse(await A.inflate(base64))

  function make(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === undefined || value === null || value === false) continue
      if (name.startsWith('on')) node.addEventListener(name.slice(2), value)
      else node.setAttribute(name, value === true ? '' : value)
    }
    node.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== ''))
    return node
  }
  // Text is only ever added as text: nothing of a ledger becomes markup.
  A.el = (tag, attributes, ...children) => make(document.createElement(tag), attributes, children)
  A.svg = (tag, attributes, ...children) => make(document.createElementNS(SVG, tag), attributes, children)

  // K2SiS3 with subscripts.
  A.formula = (text) => {
    const parts = String(text).split(/(\d+(?:\.\d+)?)/)
    return A.el('span', { class: 'formula' }, ...parts.map((p) => (/^\d/.test(p) ? A.el('sub', {}, p) : p)))
  }
  // Space groups: P6_3/mmc.
  A.group = (text) => {
    const parts = String(text ?? '–').split(/(_\d)/)
    return A.el('span', {}, ...parts.map((p) => (/^_\d$/.test(p) ? A.el('sub', {}, p[1]) : p)))
  }
  A.energy = (value, digits = 3) =>
    value === undefined || value === null
      ? '–'
      : (value > 0 ? '+' : value < 0 ? '−' : '') + Math.abs(value).toFixed(digits)
  A.count = (n) => n.toLocaleString('en')
  A.percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`

  // Atomic fractions of a formula with brackets, {symbol: amount}.
  A.amounts = (formula) => {
    const stack = [{}]
    for (const [, symbol, open, close, number] of String(formula).matchAll(
      /(?:([A-Z][a-z]?)|(\()|(\)))(\d*\.?\d*)/g,
    )) {
      const times = number ? Number(number) : 1
      if (open) stack.push({})
      else if (close && stack.length > 1) {
        const inner = stack.pop()
        for (const [s, n] of Object.entries(inner)) stack.at(-1)[s] = (stack.at(-1)[s] || 0) + n * times
      } else if (symbol) stack.at(-1)[symbol] = (stack.at(-1)[symbol] || 0) + times
    }
    return stack[0]
  }

  // Draws now and whenever the width of the box changes.
  A.onWidth = (host, draw) => {
    let last = 0
    new ResizeObserver(() => {
      const width = Math.floor(host.clientWidth)
      if (width && width !== last) draw((last = width))
    }).observe(host)
  }

  A.download = (name, text, type = 'text/plain') => {
    const url = URL.createObjectURL(new Blob([text], { type }))
    A.el('a', { href: url, download: name.replace(/[^A-Za-z0-9_.()+-]/g, '_') }).click()
    setTimeout(() => URL.revokeObjectURL(url), 10000)
  }

  A.isDark = () => {
    const chosen = document.documentElement.dataset.theme
    return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches
  }
  A.setTheme = (name) => {
    document.documentElement.dataset.theme = name
    try {
      localStorage.setItem('anchor-theme', name)
    } catch {} // a file may not be allowed to remember
    window.dispatchEvent(new Event('anchor-theme'))
  }
  A.recallTheme = () => {
    try {
      const name = localStorage.getItem('anchor-theme')
      if (name === 'dark' || name === 'light') document.documentElement.dataset.theme = name
    } catch {}
  }
})()
