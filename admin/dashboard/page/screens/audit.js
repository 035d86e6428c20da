/** Who changed what, newest first. */
import { useState } from 'preact/hooks'
import { loaded, table, text, useRead } from '../components.js'
import { absent, isolated, time } from '../format.js'
import { Pick } from '../forms.js'
import { html } from '../html.js'
import { request } from '../session.js'
import { supplierOptions } from '../state.js'

/** @import { AuditEntry } from '../../../management/audit.ts' */

/** The parts of two values that differ, as lines. @param {unknown} before @param {unknown} after @param {string} path @returns {string[]} */
function differences(before, after, path = '') {
  if (JSON.stringify(before) === JSON.stringify(after)) return []
  const objects = [before, after].every((value) => typeof value === 'object' && value !== null)
  if (!objects) return [`${path === '' ? '' : `${path}: `}${shown(before)} → ${shown(after)}`]
  /** Entries of lists are found by their names. @param {unknown} value @returns {Record<string, unknown>} */
  const keyed = (value) =>
    Array.isArray(value)
      ? Object.fromEntries(
          value.map((element, index) => [
            element?.name ?? element?.location ?? element?.id ?? index,
            element,
          ]),
        )
      : { .../** @type {object} */ (value) }
  const [one, other] = [keyed(before), keyed(after)]
  return [...new Set([...Object.keys(one), ...Object.keys(other)])].flatMap((key) =>
    differences(one[key], other[key], path === '' ? isolated(key) : `${path} ${isolated(key)}`),
  )
}

/** @param {unknown} value @returns {string} */
const shown = (value) =>
  value === undefined || value === null
    ? 'none'
    : typeof value !== 'object'
      ? isolated(String(value))
      : Object.entries(value)
          .map(([name, part]) => (Array.isArray(value) ? shown(part) : `${name} ${shown(part)}`))
          .join(', ') || 'none'

/** @type {import('../components.js').Column<AuditEntry>[]} */
const columns = [
  text('Time', ({ at: instant }) => time(instant)),
  text(
    'Who',
    ({ who, account }) => html`<bdi>${who}</bdi> <small>account ${isolated(account)}</small>`,
  ),
  text('Supplier', ({ supplier }) => (supplier === '*' ? 'all' : supplier || absent)),
  text('Action', ({ action }) => action.replace('_', ' ')),
  text(
    'Change',
    ({ before, after }) =>
      html`<ul class="changes">${differences(before, after).map((line) => html`<li key=${line}>${line}</li>`)}</ul>`,
  ),
  text('Request', ({ request_id }) => html`<code>${request_id}</code>`, { widest: true }),
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
    return { rows: /** @type {AuditEntry[]} */ (await response.json()), next }
  }, [path])
  const choose = (/** @type {string} */ chosen) => {
    setPages([])
    setSsp(chosen)
  }
  return html`<div class="row"><h1>Audit</h1>
      <${Pick} label="Supplier" value=${ssp} pick=${choose} options=${[['', 'all'], ...supplierOptions()]} />
      <button type="button" onClick=${found.again}>Read again</button></div>
    ${loaded(
      found,
      ({ rows, next }) => html`
      ${
        rows.length === 0
          ? html`<p class="box">No change yet.</p>`
          : table({ label: 'Changes', rows, columns, keyOf: ({ id }) => String(id) })
      }
      <div class="row">
        ${pages.length > 0 && html`<button type="button" onClick=${() => setPages(pages.slice(0, -1))}>Newer</button>`}
        ${next !== null && html`<button type="button" onClick=${() => setPages([...pages, next])}>Older</button>`}
      </div>`,
    )}`
}
