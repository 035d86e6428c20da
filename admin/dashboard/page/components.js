/** Parts that several screens use. */
/** @import { Shown } from './html.js' */
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { glossary } from './glossary.js'
import { html } from './html.js'

/** A term with an explanation that opens by click, tap or keyboard. `of`: what it explains, if the name is shown elsewhere.
 * @param {{ name: string, text?: string | undefined, of?: string }} props */
export function Term({ name, text, of = name }) {
  const id = useId()
  const button = useRef(/** @type {HTMLElement | null} */ (null))
  const place = (/** @type {Event & { newState?: string }} */ event) => {
    const box = /** @type {HTMLElement} */ (event.target)
    if (event.newState !== 'open' || button.current === null) return
    const { left, bottom } = button.current.getBoundingClientRect()
    box.style.left = `${Math.max(8, Math.min(left, innerWidth - box.offsetWidth - 8))}px`
    box.style.top = `${Math.min(bottom + 6, innerHeight - box.offsetHeight - 8)}px`
  }
  const explained = text ?? glossary[name]
  if (explained === undefined) return html`<span>${name}</span>`
  return html`<span class="term">${name}<button type="button" class="help" ref=${button}
    popovertarget=${id} aria-label=${`What is ${of}?`}>?</button><span
    popover="auto" id=${id} class="tip" role="note" onToggle=${place}>${explained}</span></span>`
}

/** Reads something once and after changes of `key`; `again` reads it anew. The last value stays meanwhile.
 * @template T @param {() => Promise<T>} read @param {unknown[]} key
 * @returns {{ value: T | null, fault: string, again: () => Promise<void> }} */
export function useRead(read, key) {
  const [state, set] = useState({ value: /** @type {T | null} */ (null), fault: '' })
  const round = useRef(0)
  const again = async () => {
    round.current += 1
    const mine = round.current
    try {
      const value = await read()
      if (mine === round.current) set({ value, fault: '' })
    } catch (error) {
      if (mine === round.current)
        set((last) => ({ ...last, fault: /** @type {Error} */ (error).message }))
    }
  }
  useEffect(() => {
    void again()
  }, key)
  return { ...state, again }
}

/** Loading, failed, empty, or the content.
 * @template T @param {{ value: T | null, fault: string, again: () => void }} of @param {(value: T) => Shown} content */
export function loaded({ value, fault, again }, content, empty = '') {
  const isEmpty = Array.isArray(value) && value.length === 0
  return html`${
    fault !== '' &&
    html`<p class="box bad" role="alert">Not ${value === null ? 'read' : 'up to date'}: ${fault}
      <button type="button" onClick=${again}>Try again</button></p>`
  }
  ${value === null && fault === '' && html`<p class="soft">Loading…</p>`}
  ${isEmpty && html`<p class="soft">${empty}</p>`}
  ${value !== null && !isEmpty && content(value)}`
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
 * `by`: the value to sort by; `total`: the cell below all rows; `wide`: left out of narrow windows.
 * @template Row @typedef {object} Column
 * @property {string} name
 * @property {(row: Row) => Shown} cell
 * @property {boolean} [text]
 * @property {boolean} [wide]
 * @property {string} [help]
 * @property {(row: Row) => number | string | null} [by]
 * @property {(rows: Row[]) => Shown} [total]
 */

/** A column of numbers. @template Row @param {string} name @param {(row: Row) => Shown} cell
 * @param {Partial<Column<Row>>} more @returns {Column<Row>} */
export const number = (name, cell, more = {}) => ({ name, cell, ...more })
/** A column of texts. @template Row @param {string} name @param {(row: Row) => Shown} cell
 * @param {Partial<Column<Row>>} more @returns {Column<Row>} */
export const text = (name, cell, more = {}) => number(name, cell, { text: true, ...more })

/** @param {{ text?: boolean, wide?: boolean }} column */
const kindOf = ({ text, wide }) => `${text ? 'text' : 'number'}${wide ? ' wide' : ''}`

/** The name of a column, with its explanation.
 * @template Row @param {Column<Row>} column @param {{ by: string, down: boolean } | undefined} sort @param {() => void} onSort */
function head({ name, by, help }, sort, onSort) {
  if (by === undefined) return html`<${Term} name=${name} text=${help} />`
  const arrow = sort?.by !== name ? '' : sort.down ? ' ▾' : ' ▴'
  return html`<button type="button" class="sort" onClick=${onSort}>${name}<span aria-hidden="true">${arrow}</span></button>${
    glossary[name] && html`<${Term} name="" of=${name} text=${glossary[name]} />`
  }`
}

/**
 * A table that scrolls by itself. `tall`: of limited height; `fills`: at most the window, with its totals in sight.
 * @template Row
 * @param {{ label: string, rows: Row[], keyOf: (row: Row) => string, columns: Column<Row>[], size?: 'tall' | 'fills' | '',
 *   sort?: { by: string, down: boolean }, onSort?: (column: Column<Row>) => void }} props
 */
export function table({ label, rows, keyOf, columns, size = '', sort, onSort }) {
  const cells = (/** @type {(column: Column<Row>) => Shown} */ of) =>
    columns.map((column, at) =>
      at === 0
        ? html`<th scope="row" class=${kindOf(column)}>${of(column)}</th>`
        : html`<td class=${kindOf(column)}>${of(column)}</td>`,
    )
  const ordered = (/** @type {string} */ name) =>
    sort?.by !== name ? undefined : sort.down ? 'descending' : 'ascending'
  return html`<div class=${`scroll ${size}`} role="region" aria-label=${label} tabindex="0"><table>
    <caption class="hidden">${label}</caption>
    <thead><tr>${columns.map(
      (column) =>
        html`<th scope="col" class=${kindOf(column)} aria-sort=${ordered(column.name)}><span class="head">${head(column, sort, () => onSort?.(column))}</span></th>`,
    )}</tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${keyOf(row)}>${cells(({ cell }) => cell(row))}</tr>`)}</tbody>
    ${columns.some(({ total }) => total) && html`<tfoot><tr>${cells(({ total }) => total?.(rows))}</tr></tfoot>`}
  </table></div>`
}
