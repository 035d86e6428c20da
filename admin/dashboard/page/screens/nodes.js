/** The nodes whose figures are summed. */
import { rate, time } from '../format.js'
import { html } from '../html.js'
import { Level, Table } from '../parts.js'
import { live, poll, shownNode } from '../state.js'

/** @import { LiveNode } from '../../../fleet/live.ts' */

const late = 25

const columns = [
  {
    name: 'Node',
    text: true,
    cell: (/** @type {LiveNode} */ { node }) =>
      html`<code>${node}</code>${node === live.value?.node && html` <span class="tag">answered</span>`}`,
  },
  { name: 'Location', text: true, cell: (/** @type {LiveNode} */ { location }) => location },
  { name: 'Version', text: true, cell: (/** @type {LiveNode} */ { version }) => version },
  { name: 'Started', text: true, cell: (/** @type {LiveNode} */ { started }) => time(started) },
  {
    name: 'Figures',
    text: true,
    help: 'How old the figures of the node are. Nodes publish them every 10 seconds; after 35 seconds a node is left out.',
    cell: (/** @type {LiveNode} */ { age }) =>
      html`<${Level} level=${age < late ? 'ok' : 'warn'} label=${`${rate(age)} s old`} />`,
  },
  {
    name: 'State',
    text: true,
    help: 'What is wrong with the node itself, such as its database or its configuration file.',
    cell: (/** @type {LiveNode} */ { problems }) =>
      problems.length === 0
        ? html`<${Level} level="ok" />`
        : problems.map(
            ({ level, text }) =>
              html`<div key=${text}><${Level} level=${level} /> <small>${text}</small></div>`,
          ),
  },
  {
    name: 'Show',
    text: true,
    help: 'Shows the figures of this node alone on all screens.',
    cell: (/** @type {LiveNode} */ { node }) =>
      html`<button type="button" aria-pressed=${shownNode.value === node} aria-label=${`Only this: ${node}`} onClick=${() => {
        shownNode.value = shownNode.value === node ? '' : node
        void poll()
      }}>Only this</button>`,
  },
]

export function Nodes() {
  return html`<h1>Nodes</h1>
    <p>Requests, times and counters are sums over these nodes. Kept rates of the last 7 days and reports come from the store. A node that ended is left out after 35 seconds, with what it counted since its start.</p>
    <${Table} label="Nodes" rows=${live.value?.nodes ?? []} keyOf=${(/** @type {LiveNode} */ { node }) => node} columns=${columns} />`
}
