/** What is wrong, what was wrong, and whether the receiver of alerts answers. */
import { useState } from 'preact/hooks'
import { ask } from '../actions.js'
import { Level, loaded, Name, number, table, text, useRead } from '../components.js'
import { absent, sentence, time, timeSpan } from '../format.js'
import { Pick } from '../forms.js'
import { html } from '../html.js'
import { call } from '../session.js'
import { integration, may, reportsEvery, seesAll, supplierOptions } from '../state.js'

/** @import { AlertsAnswer } from '../../../fleet/alerts-route.ts' */
/** @typedef {AlertsAnswer['alerts'][number]} Alert */
/** @typedef {import('../components.js').Column<Alert>} Column */

/** @type {Column} */
const what = text(
  'What',
  ({ level, text, fix }) =>
    html`<${Level} level=${level} /> ${sentence(text)}${fix && html` <small>${fix}</small>`}`,
)
/** @type {Column} */
const whose = text('Supplier or node', ({ supplier, node }) => {
  if (supplier === null) return html`<a href="#/nodes">node <code>${node}</code></a>`
  const name = integration(supplier)?.name
  return name === undefined
    ? html`<${Name} name=${supplier} />`
    : html`<a href=${`#/supplier/${encodeURIComponent(supplier)}`}><${Name} name=${name} /></a>`
})
const began = text('Since', (/** @type {Alert} */ { began }) => time(began))
const lasted = number('Lasted', (/** @type {Alert} */ { began, ended }) =>
  ended === null ? absent : timeSpan(Date.parse(ended) - Date.parse(began)),
)
const lasts = number('For', (/** @type {Alert} */ { began }) =>
  timeSpan(Date.now() - Date.parse(began)),
)
const open = [began, lasts, whose, what]
const ended = [{ ...began, name: 'Began' }, lasted, whose, what]
const keyOf = (/** @type {Alert} */ { id }) => String(id)

const test = () =>
  ask({
    title: 'Send a test?',
    text: 'The receiver of alerts is called once, with the event alert_test.',
    verb: 'Send',
    act: async () => {
      const { fault } = await call('/api/svc/alerts/test/', 'POST')
      if (fault !== null) throw new Error(fault)
    },
    failed: 'Not sent',
    done: 'The receiver has the test.',
  })

/** @param {AlertsAnswer} answer */
function receiverOf({ receiver: { state, fault, next } }) {
  if (state === 'none')
    return html`<p class="soft">Alerts are sent nowhere. To send them to a webhook, set <code>admin.alerts</code> in the configuration: <code>{url, secret}</code>.</p>`
  const button =
    may('operator') &&
    seesAll.value &&
    html`<button type="button" onClick=${test}>Send a test</button>`
  return state === 'failing'
    ? html`<p class="box bad">Alerts are not sent: ${fault}. The next call is at ${next && time(next)}. ${button}</p>`
    : html`<p class="row"><${Level} level="ok" label="Sent to the webhook" /> ${button}</p>`
}

export function Alerts() {
  const [ssp, setSsp] = useState('')
  const [pages, setPages] = useState(/** @type {number[]} */ ([]))
  const before = pages.at(-1)
  const read = (/** @type {'open' | 'ended'} */ state, /** @type {object} */ more) => {
    const query = new URLSearchParams({ state, ...(ssp === '' ? {} : { ssp }), ...more })
    return /** @type {Promise<AlertsAnswer>} */ (call(`/api/svc/alerts/?${query}`))
  }
  const now = useRead(() => read('open', { limit: '1000' }), ['open', ssp], reportsEvery)
  const past = useRead(
    () =>
      read('ended', { limit: '50', ...(before === undefined ? {} : { before: String(before) }) }),
    ['ended', ssp, before],
    reportsEvery,
  )
  const choose = (/** @type {string} */ chosen) => {
    setPages([])
    setSsp(chosen)
  }
  return html`<div class="row"><h1>Alerts</h1>
      <${Pick} label="Supplier" value=${ssp} pick=${choose} options=${[['', 'all, and the nodes'], ...supplierOptions()]} /></div>
    ${loaded(
      now,
      (answer) => html`${receiverOf(answer)}
      <section><h2>Open now</h2>${
        answer.alerts.length === 0
          ? html`<p class="box"><${Level} level="ok" label="No alert is open" /></p>`
          : table({ label: 'Open alerts', rows: answer.alerts, columns: open, keyOf })
      }</section>`,
    )}
    <section><h2>Before</h2>
    ${loaded(
      past,
      ({ alerts, next }) => html`${
        alerts.length === 0
          ? html`<p class="box">No alert has ended in the last 90 days.</p>`
          : table({ label: 'Alerts that have ended', rows: alerts, columns: ended, keyOf })
      }
      <div class="row">
        ${pages.length > 0 && html`<button type="button" onClick=${() => setPages(pages.slice(0, -1))}>Newer</button>`}
        ${next !== null && html`<button type="button" onClick=${() => setPages([...pages, next])}>Older</button>`}
      </div>`,
    )}</section>
    <p class="soft">A state is an alert once it has lasted for a minute, and has ended when it has not been so for five. Holds are no alerts.</p>`
}
