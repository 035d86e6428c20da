/** The nodes whose figures are summed, and what is wrong with them. */

import { Level, table, text } from '../components.js'
import { time } from '../format.js'
import { html } from '../html.js'
import { live, showNode, shownNode } from '../state.js'

/** @typedef {import('../../../fleet/live-schema.ts').LiveNode} LiveNode */

/** Seconds after which figures are old: nodes publish them every 10. */
const late = 25

/** @type {import('../components.js').Column<LiveNode>[]} */
const columns = [
  text(
    'Node',
    ({ node }) =>
      html`<code>${node}</code>${node === live.value?.node && html` <span class="tag">answered</span>`}`,
  ),
  text('Location', ({ location }) => location),
  text('Version', ({ version }) => version),
  text('Started', ({ started }) => time(started)),
  text(
    'Figures',
    ({ age }) =>
      html`<${Level} level=${age < late ? 'ok' : 'warn'} label=${`${Math.round(age)} s old`} />`,
    {
      help: 'How old the figures of the node are. Nodes publish them every 10 seconds; after 35 seconds a node is left out.',
    },
  ),
  text(
    'State',
    ({ problems }) =>
      problems.length === 0
        ? html`<${Level} level="ok" />`
        : problems.map(
            ({ level, text }) =>
              html`<div key=${text}><${Level} level=${level} /> <small>${text}</small></div>`,
          ),
    { help: 'What is wrong with the node itself, such as its database or its configuration file.' },
  ),
  text(
    'Show',
    ({ node }) =>
      html`<button type="button" aria-pressed=${shownNode.value === node} aria-label=${`Only this: ${node}`}
        onClick=${() => showNode(shownNode.value === node ? '' : node)}>Only this</button>`,
    { help: 'Shows the figures of this node alone on all screens.' },
  ),
]

export const Nodes = () => html`<h1>Nodes</h1>
    <p>Requests, times and counters are sums over these nodes. Kept rates of the last 7 days and reports come from the store. A node that ended is left out after 35 seconds, with what it counted since its start.</p>
    ${table({ label: 'Nodes', rows: live.value?.nodes ?? [], columns, keyOf: ({ node }) => node })}`

/** What is wrong with the nodes, on every screen. The same problem of several nodes is one line. */
export function Problems() {
  const nodes = live.value?.nodes ?? []
  const all = nodes.flatMap(({ problems }) => problems)
  if (all.length === 0) return null
  const bad = all.filter(({ level }) => level === 'bad')
  const texts = new Set([...bad, ...all].map(({ text }) => text))
  const who = (/** @type {string} */ text) => {
    const affected = nodes.filter(({ problems }) =>
      problems.some((problem) => problem.text === text),
    )
    return nodes.length > 1 && affected.length === nodes.length
      ? 'All nodes'
      : `Node ${affected.map(({ node }) => node).join(', ')}`
  }
  return html`<ul class=${`box ${bad.length > 0 ? 'bad' : 'warn'}`} aria-label="Problems of nodes">${[
    ...texts,
  ].map((text) => html`<li key=${text}>${who(text)}: ${text}.</li>`)}</ul>`
}
