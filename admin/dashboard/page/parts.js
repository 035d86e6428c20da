/** Parts that several screens use. */
/** @import { Shown } from './html.js' */
import { useEffect, useRef, useState } from 'preact/hooks'
import { html } from './html.js'
import { words } from './words.js'

let ids = 0
/** An id that stays the same for the life of a component. */
function useId() {
  const [id] = useState(() => {
    ids += 1
    return `help-${ids}`
  })
  return id
}

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
  const explained = text ?? words[name]
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
 * @template T @param {{ of: { value: T | null, fault: string, again: () => void }, empty?: string, children: (value: T) => Shown }} props */
export function Loaded({ of: { value, fault, again }, empty = '', children }) {
  const isEmpty = Array.isArray(value) && value.length === 0
  return html`${
    fault !== '' &&
    html`<p class="box bad" role="alert">Not ${value === null ? 'read' : 'up to date'}: ${fault}
      <button type="button" onClick=${again}>Try again</button></p>`
  }
  ${value === null && fault === '' && html`<p class="soft">Loading…</p>`}
  ${isEmpty && html`<p class="soft">${empty}</p>`}
  ${value !== null && !isEmpty && children(value)}`
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
 * A table that scrolls by itself; `fills`: at most the window, with its totals in sight. `columns`: name, cell of a row, and the value to sort by.
 * @template T
 * @param {{ label: string, rows: T[], keyOf: (row: T) => string, foot?: Shown[] | undefined, tall?: boolean, fills?: boolean,
 *   sort?: { by: string, down: boolean }, onSort?: (by: string) => void,
 *   columns: { name: string, cell: (row: T) => Shown, sortable?: boolean, text?: boolean, wide?: boolean, help?: string }[] }} props
 */
export function Table({
  label,
  rows,
  keyOf,
  columns,
  foot,
  sort,
  onSort,
  tall = false,
  fills = false,
}) {
  const kind = (/** @type {{ text?: boolean, wide?: boolean }} */ { text, wide }) =>
    `${text ? 'text' : 'number'}${wide ? ' wide' : ''}`
  return html`<div class=${`scroll${tall ? ' tall' : ''}${fills ? ' fills' : ''}`} role="region" aria-label=${label} tabindex="0"><table>
    <caption class="hidden">${label}</caption>
    <thead><tr>${columns.map(
      (column) =>
        html`<th scope="col" class=${kind(column)} aria-sort=${
          sort?.by === column.name ? (sort.down ? 'descending' : 'ascending') : undefined
        }><span class="head">${
          column.sortable
            ? html`<button type="button" class="sort" onClick=${() => onSort?.(column.name)}>${column.name}<span aria-hidden="true">${
                sort?.by === column.name ? (sort.down ? ' ▾' : ' ▴') : ''
              }</span></button>${words[column.name] && html`<${Term} name="" of=${column.name} text=${words[column.name]} />`}`
            : html`<${Term} name=${column.name} text=${column.help} />`
        }</span></th>`,
    )}</tr></thead>
    <tbody>${rows.map(
      (row) =>
        html`<tr key=${keyOf(row)}>${columns.map((column, at) =>
          at === 0
            ? html`<th scope="row" class=${kind(column)}>${column.cell(row)}</th>`
            : html`<td class=${kind(column)}>${column.cell(row)}</td>`,
        )}</tr>`,
    )}</tbody>
    ${
      foot &&
      html`<tfoot><tr>${foot.map((cell, at) =>
        at === 0
          ? html`<th scope="row" class="text">${cell}</th>`
          : html`<td class=${kind(columns[at] ?? {})}>${cell}</td>`,
      )}</tr></tfoot>`
    }
  </table></div>`
}
