/** Our figures beside those of a supplier: a CSV file that is dropped here. It is read in the browser and sent nowhere. */
import { useState } from 'preact/hooks'
import { Name, number, table, text } from '../components.js'
import { mostBytes, numberOf, parseCsv } from '../csv.js'
import { absent, dateOf, integer, money, percent } from '../format.js'
import { Pick } from '../forms.js'
import { html } from '../html.js'
import { currency } from '../state.js'

/** @import { ReportRow } from '../../../reports/columns.ts' */
/** @import { Csv } from '../csv.js' */

/** What of ours an amount is compared with. */
const amounts = /** @type {const} */ ({
  cleared: 'cleared prices',
  revenue: 'revenue',
  out_ba: 'prices sent',
})
/** @typedef {keyof typeof amounts} Amount */
/** @typedef {{ key: string, ours: { wins: number, amount: number } | null, theirs: { wins: number | null, amount: number | null } | null }} Compared */

/** The column of the file that is probably meant: the first whose name has one of these words. @param {Csv} csv @param {string[]} words */
const guess = ({ names }, words) =>
  String(names.findIndex((name) => words.some((word) => name.toLowerCase().includes(word))))

/** A name as both write it. @param {string} by @param {string} key */
function same(by, key) {
  if (by === 'day') {
    const [, year, month, day] = /^(\d{4})\D?(\d\d)\D?(\d\d)/.exec(key) ?? []
    return year === undefined ? key.trim() : `${year}-${month}-${day}`
  }
  return key.trim().toLowerCase()
}

/** @param {ReportRow[]} rows @param {string} by @param {Csv} csv @param {{ key: number, wins: number, amount: number, ours: Amount }} columns @returns {Compared[]} */
function compared(rows, by, csv, columns) {
  /** @type {Map<string, Compared>} */
  const found = new Map()
  const rowOf = (/** @type {string} */ key, /** @type {string} */ shown) => {
    const known = found.get(key)
    if (known !== undefined) return known
    const fresh = { key: shown, ours: null, theirs: null }
    found.set(key, fresh)
    return fresh
  }
  for (const row of rows) {
    const key = by === 'day' ? dateOf(Date.parse(row.key)) : row.key
    const into = rowOf(same(by, key), key)
    const { wins, amount } = into.ours ?? { wins: 0, amount: 0 }
    into.ours = { wins: wins + row.wins, amount: amount + Number(row[columns.ours]) }
  }
  const add = (
    /** @type {number | null | undefined} */ sum,
    /** @type {string | undefined} */ cell,
  ) => {
    const value = cell === undefined ? null : numberOf(cell)
    return value === null ? (sum ?? null) : (sum ?? 0) + value
  }
  for (const cells of csv.rows) {
    const key = cells[columns.key] ?? ''
    const into = rowOf(same(by, key), key)
    into.theirs = {
      wins: add(into.theirs?.wins, cells[columns.wins]),
      amount: add(into.theirs?.amount, cells[columns.amount]),
    }
  }
  return [...found.values()]
}

/** What theirs is more than ours, as a share of ours. @param {number | null | undefined} ours @param {number | null | undefined} theirs */
const difference = (ours, theirs) =>
  ours == null || theirs == null || ours === 0 ? null : theirs / ours - 1

const amountText = (/** @type {number | null | undefined} */ value) => money(value, currency.value)

/** @param {{ rows: ReportRow[], by: string, csv: Csv }} props */
function Beside({ rows, by, csv }) {
  const [key, setKey] = useState(() => guess(csv, [by, 'name', 'date', 'site', 'partner']))
  const [wins, setWins] = useState(() => guess(csv, ['win', 'impression', 'imps']))
  const [amount, setAmount] = useState(() =>
    guess(csv, ['spend', 'revenue', 'cost', 'amount', 'cleared']),
  )
  const [ours, setOurs] = useState(/** @type {Amount} */ ('cleared'))
  const options = [['-1', 'none'], ...csv.names.map((name, index) => [String(index), name])]
  const all = compared(rows, by, csv, {
    ...{ key: Math.max(0, Number(key)), wins: Number(wins), amount: Number(amount), ours },
  })
  const missing = all.filter(({ ours, theirs }) => ours === null || theirs === null).length
  const columns = [
    text(by, (/** @type {Compared} */ { key }) => html`<${Name} name=${key} />`),
    number('Wins, ours', (/** @type {Compared} */ pair) => integer(pair.ours?.wins)),
    number('theirs', (/** @type {Compared} */ pair) => integer(pair.theirs?.wins)),
    number('Difference', (/** @type {Compared} */ pair) =>
      percent(difference(pair.ours?.wins, pair.theirs?.wins)),
    ),
    number('Amount, ours', (/** @type {Compared} */ pair) => amountText(pair.ours?.amount)),
    number('theirs ', (/** @type {Compared} */ pair) => amountText(pair.theirs?.amount)),
    number('Difference ', (/** @type {Compared} */ pair) => {
      const gap = difference(pair.ours?.amount, pair.theirs?.amount)
      const isLarge = gap !== null && Math.abs(gap) > 0.05
      return gap === null
        ? absent
        : html`<strong class=${isLarge ? 'warn' : 'ok'}>${percent(gap)}</strong>`
    }),
  ]
  return html`<div class="row">
      <${Pick} label="Their names" value=${key} options=${options.slice(1)} pick=${setKey} />
      <${Pick} label="Their wins" value=${wins} options=${options} pick=${setWins} />
      <${Pick} label="Their amounts" value=${amount} options=${options} pick=${setAmount} />
      <${Pick} label="compared with our" value=${ours} options=${Object.entries(amounts)} pick=${setOurs} /></div>
    ${missing > 0 && html`<p class="box warn">${integer(missing)} of ${integer(all.length)} names are on one side only.</p>`}
    ${table({ label: 'Ours beside theirs', rows: all, columns, keyOf: ({ key }) => key, size: 'tall' })}`
}

/** @param {{ rows: ReportRow[], by: string, then: string }} props */
export function Comparison({ rows, by, then }) {
  const [csv, setCsv] = useState(/** @type {Csv | null} */ (null))
  const [fault, setFault] = useState('')
  const take = async (/** @type {File | undefined} */ file) => {
    if (file === undefined) return
    setFault('')
    setCsv(null)
    try {
      if (file.size > mostBytes) throw new Error(`the file is larger than ${mostBytes / 1e6} MB`)
      setCsv(parseCsv(await file.text()))
    } catch (error) {
      setFault(`${file.name} cannot be read: ${/** @type {Error} */ (error).message}`)
    }
  }
  const drop = (/** @type {DragEvent} */ event) => {
    event.preventDefault()
    void take(event.dataTransfer?.files[0])
  }
  return html`<section class="sheet" aria-label="Discrepancy" onDrop=${drop} onDragOver=${(/** @type {Event} */ event) => event.preventDefault()}>
    <h2>Discrepancy with a supplier</h2>
    <p class="soft">Drop the supplier's CSV report here, or choose it: one row for each ${by}${then !== '' && ', without the second grouping'}. It is read in this
      browser and sent nowhere. Amounts are units of ${currency}, not CPM.</p>
    <label class="pick">CSV file <input type="file" accept=".csv,text/csv,text/plain"
      onChange=${(/** @type {Event} */ { target }) => take(/** @type {HTMLInputElement} */ (target).files?.[0])} /></label>
    <p class="fault" role="alert">${fault}</p>
    ${csv !== null && html`<${Beside} rows=${rows} by=${by} csv=${csv} />`}
  </section>`
}
