/** Parts that several screens use. */
/** @import { Shown } from './html.js' */
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { amountOf, digitsOf } from './format.js'
import { glossary } from './glossary.js'
import { html } from './html.js'
import { ApiError } from './session.js'
import { currency, stale } from './state.js'

/** Places an explanation below what it explains, within the window. @param {{ current: HTMLElement | null }} anchor */
const placeBelow = (anchor) => (/** @type {Event & { newState?: string }} */ event) => {
  const box = /** @type {HTMLElement} */ (event.target)
  if (event.newState !== 'open' || anchor.current === null) return
  const { left, bottom } = anchor.current.getBoundingClientRect()
  box.style.left = `${Math.max(8, Math.min(left, innerWidth - box.offsetWidth - 8))}px`
  box.style.top = `${Math.min(bottom + 6, innerHeight - box.offsetHeight - 8)}px`
}

/** A term that opens its explanation by click, tap or keyboard.
 * @param {{ name: string, text?: string | undefined }} props */
export function Term({ name, text }) {
  const id = useId()
  const button = useRef(/** @type {HTMLElement | null} */ (null))
  const explained = text ?? glossary[name]
  if (explained === undefined) return html`<span>${name}</span>`
  return html`<span><button type="button" class="help" ref=${button}
    popovertarget=${id} aria-label=${`${name}: what is it?`}>${name}</button><span
    popover="auto" id=${id} class="tip" role="note" onToggle=${placeBelow(button)}>${explained}</span></span>`
}

/** The head of a column that sorts. Its explanation is shown while the pointer is on it, or the focus.
 * @param {{ name: string, unit: string, arrow: string, onSort: () => void }} props */
function SortHead({ name, unit, arrow, onSort }) {
  const id = useId()
  const button = useRef(/** @type {HTMLElement | null} */ (null))
  const tip = useRef(/** @type {HTMLElement | null} */ (null))
  const explained = glossary[name]
  const shows = (/** @type {boolean} */ open) => () => tip.current?.togglePopover(open)
  return html`<button type="button" class=${explained === undefined ? 'sort' : 'sort help'} ref=${button} onClick=${onSort}
      aria-describedby=${explained === undefined ? undefined : id}
      onMouseEnter=${shows(true)} onMouseLeave=${shows(false)} onFocus=${shows(true)} onBlur=${shows(false)}
      onKeyDown=${(/** @type {KeyboardEvent} */ { key }) => key === 'Escape' && shows(false)()}
      >${name}<span aria-hidden="true">${arrow}</span></button>${unit && html`<small>${unit}</small>`}${
        explained !== undefined &&
        html`<span popover="manual" id=${id} class="tip" role="tooltip" ref=${tip} onToggle=${placeBelow(button)}>${explained}</span>`
      }`
}

/** Milliseconds until what could not be read is read again. */
const retryEvery = 5000
/** Whether a failure may end by itself. @param {unknown} error */
const mayPass = (error) => !(error instanceof ApiError) || error.status === 0 || error.status >= 500

/**
 * Reads something once, after changes of `key`, and every `every` milliseconds while the page is seen; `again` reads it anew. The
 * last value of the same key stays meanwhile, and is never shown for another key. What failed for a reason that may end is read again
 * soon.
 * @template T @param {() => Promise<T>} read @param {unknown[]} key @param {number} [every]
 * @returns {{ value: T | null, fault: string, again: () => Promise<unknown> }}
 */
export function useRead(read, key, every) {
  const id = JSON.stringify(key)
  /** @type {{ id: string, value: T | null, fault: string }} */
  const unread = { id, value: null, fault: '' }
  const [state, set] = useState(unread)
  const round = useRef(0)
  /** That of the last rendering, so that a timer reads what is shown now. */
  const latest = useRef(read)
  latest.current = read
  const again = async () => {
    round.current += 1
    const mine = round.current
    try {
      const value = await latest.current()
      if (mine === round.current) set({ id, value, fault: '' })
      return false
    } catch (error) {
      const fault = /** @type {Error} */ (error).message
      if (mine === round.current) set((last) => ({ ...(last.id === id ? last : unread), fault }))
      return mayPass(error)
    }
  }
  useEffect(() => {
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer
    let ended = false
    const next = async (/** @type {boolean} */ isFirst) => {
      const failed = (isFirst || !document.hidden) && (await again())
      const pause = failed ? Math.min(every ?? retryEvery, retryEvery) : every
      if (!ended && pause !== undefined) timer = setTimeout(() => void next(false), pause)
    }
    void next(true)
    return () => {
      ended = true
      clearTimeout(timer)
    }
  }, [id])
  const { value, fault } = state.id === id ? state : unread
  return { value, fault, again }
}

/** Loading, failed, empty, or the content.
 * @template T @param {{ value: T | null, fault: string, again: () => unknown }} of @param {(value: T) => Shown} content
 * @param {Shown} [empty] */
export function loaded({ value, fault, again }, content, empty = '') {
  const isEmpty = Array.isArray(value) && value.length === 0
  // the page says above that nothing can be read
  const isSaid = stale.value !== '' && fault !== ''
  return html`${
    fault !== '' &&
    !isSaid &&
    html`<p class="box bad" role="alert">Not ${value === null ? 'read' : 'up to date'}: ${fault}
      <button type="button" onClick=${again}>Try again</button></p>`
  }
  ${value === null && isSaid && html`<p class="soft">Not read yet.</p>`}
  ${value === null && fault === '' && html`<p class="soft">Loading…</p>`}
  ${isEmpty && html`<div class="soft">${empty}</div>`}
  ${value !== null && !isEmpty && content(value)}`
}

/** Characters of a name from which it is cut. */
const longName = 24

/** A name, cut in its middle if it is long; a screen reader and a tooltip have it whole. @param {{ name: string, most?: number }} props */
export function Name({ name, most = longName }) {
  const letters = [...name]
  // a name from right to left does not turn what is beside it
  if (letters.length <= most) return html`<bdi>${name}</bdi>`
  const end = Math.floor((most - 1) / 3)
  const cut = `${letters.slice(0, most - 1 - end).join('')}…${letters.slice(-end).join('')}`
  return html`<span title=${name}><bdi aria-hidden="true">${cut}</bdi><span class="hidden">${name}</span></span>`
}

const marks = { bad: '✕', warn: '!', ok: '✓', none: '?' }
export const levels = { bad: 'Fault', warn: 'Warning', ok: 'OK', none: 'Unknown' }

/** A state by colour, sign and word. @param {{ level: 'bad' | 'warn' | 'ok' | 'none', label?: string }} props */
export function Level({ level, label = levels[level] }) {
  return html`<span class=${`level ${level}`}><span aria-hidden="true">${marks[level]}</span> ${label}</span>`
}

/** A figure with a name and a note. @param {{ name: string, value: Shown, note?: Shown, level?: string | undefined }} props */
export function Figure({ name, value, note, level }) {
  return html`<div class="figure"><dt><${Term} name=${name} /></dt>
    <dd><strong class=${level ?? ''}>${value}</strong>${note && html`<small>${note}</small>`}</dd></div>`
}

/**
 * `by`: the value to sort by; `total`: the cell below all rows; `wide`: left out of narrow windows; `widest`: of all but the widest.
 * @template Row @typedef {object} Column
 * @property {string} name
 * @property {(row: Row) => Shown} cell
 * @property {boolean} [text]
 * @property {boolean} [wide]
 * @property {boolean} [widest]
 * @property {string} [help]
 * @property {(row: Row) => number | string | null} [by]
 * @property {(rows: Row[]) => Shown} [total]
 * @property {(row: Row) => number | string | null} [amount] Of money; the head has the currency.
 * @property {(rows: Row[]) => number | null} [sum] Of a column of amounts.
 */

/** A column of numbers. @template Row @param {string} name @param {(row: Row) => Shown} cell
 * @param {Partial<Column<Row>>} more @returns {Column<Row>} */
export const number = (name, cell, more = {}) => ({ name, cell, ...more })
/**
 * A column of amounts, which have the same number of decimals. `cell` and `total` are notes below an amount.
 * @template Row @param {string} name @param {(row: Row) => number | string | null} amount
 * @param {Partial<Column<Row>>} more @returns {Column<Row>}
 */
export const amounts = (name, amount, more = {}) => ({
  name,
  amount,
  cell: () => null,
  by: (row) => {
    const value = amount(row)
    return value === null ? null : Number(value)
  },
  ...more,
})
/** The sum of the amounts of all rows. @template Row @param {(row: Row) => number | string | null} amount */
export const sumOf = (amount) => (/** @type {Row[]} */ rows) =>
  rows.reduce((sum, row) => sum + Number(amount(row)), 0)

/** Writes the amounts of a column. @template Row @param {Column<Row>} column @param {Row[]} rows @returns {Column<Row>} */
function written({ amount, cell, sum, total, ...column }, rows) {
  if (amount === undefined) return { ...column, cell, ...(total && { total }) }
  const values = rows.map(amount)
  const digits = digitsOf(values)
  return {
    ...column,
    amount,
    cell: (row) => html`${amountOf(amount(row), digits)}${cell(row)}`,
    ...(sum && {
      total: (all) => html`${amountOf(sum(all), digits)}${total?.(all)}`,
    }),
  }
}

/** A column of texts. @template Row @param {string} name @param {(row: Row) => Shown} cell
 * @param {Partial<Column<Row>>} more @returns {Column<Row>} */
export const text = (name, cell, more = {}) => number(name, cell, { text: true, ...more })

/** @param {{ text?: boolean, wide?: boolean, widest?: boolean }} column */
const kindOf = ({ text, wide, widest }) =>
  `${text ? 'text' : 'number'}${wide ? ' wide' : ''}${widest ? ' widest' : ''}`

/** The name of a column beside each cell, for narrow windows, where a row is a card. @template Row @param {Column<Row>} column */
const labelOf = ({ name, amount }) =>
  amount === undefined ? name : `${name.trim()}, ${currency.value}`

/** The name of a column, with its explanation.
 * @template Row @param {Column<Row>} column @param {{ by: string, down: boolean } | undefined} sort @param {() => void} onSort */
function head({ name, by, help, amount }, sort, onSort) {
  const unit = amount === undefined ? '' : currency.value
  if (sort === undefined || by === undefined)
    return html`<${Term} name=${name} text=${help} />${unit && html`<small>${unit}</small>`}`
  const arrow = sort?.by !== name ? '' : sort.down ? ' ▾' : ' ▴'
  return html`<${SortHead} name=${name} unit=${unit} arrow=${arrow} onSort=${onSort} />`
}

/**
 * A table that scrolls by itself. `tall`: of limited height; `fills`: at most the window, with its totals in sight. `most`: rows that
 * are shown, beside totals of all.
 * @template Row
 * @param {{ label: string, rows: Row[], keyOf: (row: Row) => string, columns: Column<Row>[], size?: 'tall' | 'fills' | '',
 *   most?: number, sort?: { by: string, down: boolean }, onSort?: (column: Column<Row>) => void }} props
 */
export function table({ label, rows, keyOf, columns: given, size = '', most, sort, onSort }) {
  const columns = given.map((column) => written(column, rows))
  const cells = (/** @type {(column: Column<Row>) => Shown} */ shownIn) =>
    columns.map((column, index) =>
      index === 0
        ? html`<th scope="row" class=${kindOf(column)}>${shownIn(column)}</th>`
        : html`<td class=${kindOf(column)} data-name=${labelOf(column)}>${shownIn(column)}</td>`,
    )
  const ordered = (/** @type {string} */ name) =>
    sort?.by !== name ? undefined : sort.down ? 'descending' : 'ascending'
  return html`<div class=${`scroll ${size}`} role="region" aria-label=${label} tabindex="0"><table>
    <caption class="hidden">${label}</caption>
    <thead><tr>${columns.map(
      (column) =>
        html`<th scope="col" class=${kindOf(column)} aria-sort=${ordered(column.name)}><span class="head">${head(column, sort, () => onSort?.(column))}</span></th>`,
    )}</tr></thead>
    <tbody>${rows.slice(0, most).map((row) => html`<tr key=${keyOf(row)}>${cells(({ cell }) => cell(row))}</tr>`)}</tbody>
    ${columns.some(({ total }) => total) && html`<tfoot><tr>${cells(({ total }) => total?.(rows))}</tr></tfoot>`}
  </table></div>`
}
