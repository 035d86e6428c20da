/** Who changed what, newest first. */
import { useState } from 'preact/hooks'
import { time } from '../format.js'
import { html } from '../html.js'
import { Loaded, Table, useRead } from '../parts.js'
import { request } from '../session.js'
import { live } from '../state.js'

/** @typedef {{ id: number, at: string, who: string, account: string, supplier: string, action: string, request_id: string, before: unknown, after: unknown }} Entry */

/** The parts of two values that differ, as lines. @param {unknown} before @param {unknown} after @param {string} path @returns {string[]} */
function differences(before, after, path = '') {
  if (JSON.stringify(before) === JSON.stringify(after)) return []
  const objects = [before, after].every((value) => typeof value === 'object' && value !== null)
  if (!objects) return [`${path === '' ? '' : `${path}: `}${text(before)} → ${text(after)}`]
  /** Entries of lists are found by their names. @param {unknown} value @returns {Record<string, unknown>} */
  const keyed = (value) =>
    Array.isArray(value)
      ? Object.fromEntries(
          value.map((each, at) => [each?.name ?? each?.location ?? each?.id ?? at, each]),
        )
      : { .../** @type {object} */ (value) }
  const [one, other] = [keyed(before), keyed(after)]
  return [...new Set([...Object.keys(one), ...Object.keys(other)])].flatMap((key) =>
    differences(one[key], other[key], path === '' ? key : `${path} ${key}`),
  )
}

/** @param {unknown} value @returns {string} */
const text = (value) =>
  value === undefined || value === null
    ? 'none'
    : typeof value !== 'object'
      ? String(value)
      : Object.entries(value)
          .map(([name, each]) => (Array.isArray(value) ? text(each) : `${name} ${text(each)}`))
          .join(', ') || 'none'

const columns = [
  { name: 'Time', text: true, cell: (/** @type {Entry} */ { at }) => time(at) },
  {
    name: 'Who',
    text: true,
    cell: (/** @type {Entry} */ { who, account }) => html`${who} <small>account ${account}</small>`,
  },
  {
    name: 'Supplier',
    text: true,
    cell: (/** @type {Entry} */ { supplier }) => (supplier === '*' ? 'all' : supplier || '–'),
  },
  {
    name: 'Action',
    text: true,
    cell: (/** @type {Entry} */ { action }) => action.replace('_', ' '),
  },
  {
    name: 'Change',
    text: true,
    cell: (/** @type {Entry} */ { before, after }) =>
      html`<ul class="changes">${differences(before, after).map((line) => html`<li key=${line}>${line}</li>`)}</ul>`,
  },
  {
    name: 'Request',
    text: true,
    wide: true,
    cell: (/** @type {Entry} */ { request_id }) => html`<code>${request_id}</code>`,
  },
]

const first = '/api/svc/audit/?limit=50'

export function Audit() {
  const [ssp, setSsp] = useState('')
  const [pages, setPages] = useState(/** @type {string[]} */ ([]))
  const start = ssp === '' ? first : `${first}&ssp=${encodeURIComponent(ssp)}`
  const path = pages.at(-1) ?? start
  const found = useRead(async () => {
    const response = await request(path)
    const next = /<([^>]+)>; rel="next"/.exec(response.headers.get('link') ?? '')?.[1] ?? null
    return { rows: await response.json(), next }
  }, [path])
  const choose = (/** @type {Event} */ event) => {
    setPages([])
    setSsp(/** @type {HTMLSelectElement} */ (event.target).value)
  }
  return html`<div class="row"><h1>Audit</h1>
      <label class="pick">Supplier <select value=${ssp} onChange=${choose}>
        <option value="">all</option>
        ${live.value?.integrations.map(({ ssp: id, name }) => html`<option key=${id} value=${id}>${name}</option>`)}</select></label>
      <button type="button" onClick=${found.again}>Read again</button></div>
    <${Loaded} of=${found}>${(
      /** @type {{ rows: Entry[], next: string | null }} */ { rows, next },
    ) => html`
      ${
        rows.length === 0
          ? html`<p class="box">No change yet.</p>`
          : html`<${Table} label="Changes" rows=${rows} keyOf=${(/** @type {Entry} */ { id }) => String(id)} columns=${columns} />`
      }
      <div class="row">
        ${pages.length > 0 && html`<button type="button" onClick=${() => setPages(pages.slice(0, -1))}>Newer</button>`}
        ${next !== null && html`<button type="button" onClick=${() => setPages([...pages, next])}>Older</button>`}
      </div>`}<//>`
}
