/** What is wrong with the nodes themselves. It is shown on every screen. */
import { html } from '../html.js'
import { live } from '../state.js'

/** The same problem of several nodes is one line. @param {import('../../../fleet/live.ts').LiveNode[]} nodes */
function grouped(nodes) {
  /** @type {Map<string, { level: 'bad' | 'warn', text: string, of: string[] }>} */
  const found = new Map()
  for (const { node, problems } of nodes)
    for (const { level, text } of problems) {
      const known = found.get(text)
      if (known === undefined) found.set(text, { level, text, of: [node] })
      else known.of.push(node)
    }
  return [...found.values()].sort(
    (one, other) => Number(other.level === 'bad') - Number(one.level === 'bad'),
  )
}

export function Problems() {
  const nodes = live.value?.nodes ?? []
  const all = grouped(nodes)
  if (all.length === 0) return null
  const who = (/** @type {string[]} */ of) =>
    nodes.length > 1 && of.length === nodes.length ? 'All nodes' : `Node ${of.join(', ')}`
  return html`<ul class=${`box ${all[0]?.level}`} aria-label="Problems of nodes">${all.map(
    ({ text, of }) => html`<li key=${text}>${who(of)}: ${text}.</li>`,
  )}</ul>`
}
