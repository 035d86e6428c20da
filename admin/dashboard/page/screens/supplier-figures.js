/** Counters of a supplier: guards, factors, endpoints, notices, and what was left unchanged. */

import { Level, Term } from '../components.js'
import { absent, duration, integer, percent, plain, rate } from '../format.js'
import { glossary } from '../glossary.js'
import { html } from '../html.js'

/** @import { LiveIntegration } from '../../../fleet/live-schema.ts' */

/** @type {Readonly<Record<string, string>>} */
const guardWords = {
  none: 'no guard acts',
  start: 'a new model: small reductions at first',
  silence: 'no win notices come: factor 1',
  drop: 'fewer wins for each bid than in the hours before: factor 1',
  kept: 'too few wins are kept: factor 1',
  cleared: 'wins cleared above the price that was bid, or far below it: factor 1',
  number: 'the model returned no number: factor 1',
}

/** @param {{ supplier: LiveIntegration }} props */
export function Guards({ supplier }) {
  const modes = supplier.modes.filter(
    ({ guards, alarms }) => Object.keys({ ...guards, ...alarms }).length > 0,
  )
  return html`<section class="sheet"><h2><${Term} name="Guards" text=${glossary['Guard']} /></h2>
    ${modes.length === 0 && html`<p class="soft">No bid was decided since the nodes started.</p>`}
    ${modes.map(
      ({ mode, guards, alarms }) => html`<div key=${mode}>
        ${supplier.modes.length > 1 && html`<h3>mode ${mode}</h3>`}
        <ul>${Object.entries(guards).map(
          ([name, nodes]) =>
            html`<li key=${name}>${guardWords[name] ?? name}${nodes > 1 && ` (${nodes} nodes)`}</li>`,
        )}</ul>
        ${
          Object.keys(alarms).length > 0 &&
          html`<p>Began to act since the nodes started: ${Object.entries(alarms)
            .map(([name, count]) => `${name} ${integer(count)} ${count === 1 ? 'time' : 'times'}`)
            .join(', ')}.</p>`
        }</div>`,
    )}</section>`
}

/** @param {{ supplier: LiveIntegration }} props */
export function Factors({ supplier }) {
  const rows = supplier.modes[0]?.factors ?? []
  const total = rows.reduce((sum, { bids }) => sum + bids, 0)
  const most = Math.max(...rows.map(({ bids }) => bids))
  return html`<section class="sheet"><h2><${Term} name="Factors since the nodes started" text=${glossary['Factor']} /></h2>
    ${
      total === 0
        ? html`<p class="soft">No bid was priced.</p>`
        : html`<table class="bars"><caption class="hidden">Bids by factor</caption><thead><tr>
            <th scope="col">Up to</th><th scope="col">Share of bids</th></tr></thead>
          <tbody>${rows.map(
            ({
              upTo,
              bids,
            }) => html`<tr key=${upTo}><th scope="row">${upTo === null ? 'above 1' : rate(upTo)}</th>
              <td><span class="bar-of" style=${{ width: `${(60 * bids) / most}%` }}></span> ${percent(bids / total)}</td></tr>`,
          )}</tbody></table>`
    }</section>`
}

/** @param {Record<string, number>} counts */
const list = (counts) =>
  Object.entries(counts)
    .sort(([, a], [, b]) => b - a)
    .map(
      ([name, count]) =>
        html`<tr key=${name}><th scope="row">${name.replaceAll('_', ' ')}</th><td class="number">${integer(count)}</td></tr>`,
    )

/** @type {Readonly<Record<string, 'ok' | 'warn' | 'bad'>>} */
const endpointLevels = { up: 'ok', failing: 'warn', ejected: 'bad', unhealthy: 'bad', out: 'bad' }

/** Why an endpoint is not up; '' for one that is. @param {LiveIntegration['endpoints'][number]} endpoint */
const endpointFault = ({ state, failures, reason }) =>
  [
    ...(reason === undefined ? [] : [reason]),
    ...(state === 'failing' || state === 'ejected'
      ? [`${integer(failures)} failures in a row`]
      : []),
  ].join(', ')

/** @type {readonly [name: string, shownOf: (variant: NonNullable<LiveIntegration['variants']>['main']) => string][]} */
const variantRows = [
  ['Requests', ({ requests }) => integer(requests)],
  ['Failed', ({ requests, failed }) => (requests === 0 ? absent : percent(failed / requests))],
  ['Bids a request', ({ requests, bids }) => (requests === 0 ? absent : plain(bids / requests))],
  ['Mean price, CPM', ({ price }) => (price === null ? absent : plain(price))],
  ['p50', ({ p50 }) => (p50 === null ? absent : duration(p50))],
  ['p99', ({ p99 }) => (p99 === null ? absent : duration(p99))],
]

/** What the endpoints of the canary do beside the others. @param {{ supplier: LiveIntegration }} props */
export function Canary({ supplier: { variants } }) {
  if (variants === undefined) return null
  const { main, canary } = variants
  const all = main.requests + canary.requests
  return html`<section class="sheet"><h2>Canary</h2>
    <p>${all === 0 ? 'No request was sent' : `${percent(canary.requests / all)} of the requests went to the canary`} since the nodes started.</p>
    <table aria-label="Canary"><thead><tr><th></th><th scope="col" class="number">Usual endpoints</th><th scope="col" class="number">Canary</th></tr></thead>
      <tbody>${variantRows.map(
        ([name, shownOf]) =>
          html`<tr key=${name}><th scope="row">${name}</th><td class="number">${shownOf(main)}</td><td class="number">${shownOf(canary)}</td></tr>`,
      )}</tbody></table>
    <p class="soft">Bids and prices are those of the supplier, before OPD.</p></section>`
}

/** @param {{ supplier: LiveIntegration }} props */
export function Counts({ supplier }) {
  const none = html`<tr><td>none</td></tr>`
  const block = (
    /** @type {string} */ title,
    /** @type {import('../html.js').Shown[]} */ rows,
  ) => html`<h3><${Term} name=${title} /></h3>
    <table aria-label=${title}><tbody>${rows.length === 0 ? none : rows}</tbody></table>`
  return html`<section class="sheet"><h2>Counters since the nodes started</h2>
    ${block('Notices', list(supplier.notices))}
    ${block('Left unchanged', list(supplier.left))}
    ${block(
      'Endpoints',
      supplier.endpoints.map(
        (
          endpoint,
        ) => html`<tr key=${endpoint.url}><th scope="row" class="url">${endpoint.url}${endpoint.canary && html` <span class="tag">canary</span>`}</th>
          <td><${Level} level=${endpointLevels[endpoint.state]} label=${endpoint.state} /> <span class="url">${endpointFault(endpoint)}</span></td></tr>`,
      ),
    )}</section>`
}
