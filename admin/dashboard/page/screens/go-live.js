/** Going live with one supplier: the steps with their checks, and a button for the next one. */
import { useState } from 'preact/hooks'
import { Level, loaded, useRead } from '../components.js'
import { integer, isolated, money, percent, sentence } from '../format.js'
import { Pick } from '../forms.js'
import { html } from '../html.js'
import { route } from '../route.js'
import { call, request } from '../session.js'
import { currency, may, readLive, seesAll, supplierOptions } from '../state.js'
import { failedShare, knownKept, NoSupplier, refusedShare } from './supplier-common.js'
import { pathOf, review } from './supplier-form.js'

/** @import { FunnelSupplier } from '../../../fleet/funnel-route.ts' */
/** @import { LiveIntegration } from '../../../fleet/live-schema.ts' */

/**
 * @typedef {{ live: LiveIntegration, funnel: FunnelSupplier | undefined, value: any, etag: string | null }} Facts
 * @typedef {{ text: string, ok: boolean | null }} Check `ok` null: not known yet.
 */

const every = 9000
/** Notices, and requests, from which their shares say anything. */
const fewest = 20
const warnShare = 0.02

/** @param {Facts} facts @param {string} step */
const countOf = ({ funnel }, step) =>
  funnel?.steps.find((counted) => counted.step === step)?.count ?? 0

/** Checks that the steps of the funnel have no fault. @param {Facts} facts @param {string} step @param {string} good @returns {Check} */
function funnelCheck(facts, step, good) {
  const fault = facts.funnel?.faults.find((found) => found.step === step)
  if (fault !== undefined) return { text: `${sentence(fault.text)} ${fault.fix}`, ok: false }
  return { text: good, ok: countOf(facts, step) < fewest ? null : true }
}

/** @param {number | null} share @param {string} what @param {string} few what is said while the share is unknown @returns {Check} */
const shareCheck = (share, what, few) => ({
  text: share === null ? few : `${percent(share)} ${what}`,
  ok: share === null ? null : share < warnShare,
})

/** @param {Facts} facts @param {'kept' | 'keptSpend'} what @param {string} name @returns {Check} */
function keptCheck({ live }, what, name) {
  const kept = knownKept(live.modes[0]?.[what])
  return kept === null
    ? { text: `${name}: too few wins`, ok: null }
    : {
        text: `${name}: ${percent(kept.at)} (${percent(kept.lower)} to ${percent(kept.upper)}), floor ${percent(kept.floor)}`,
        ok: kept.level === 'ok',
      }
}

/** @param {Facts} facts @returns {Check[]} */
const keptChecks = (facts) => [
  keptCheck(facts, 'kept', 'Kept wins'),
  keptCheck(facts, 'keptSpend', 'Kept spend'),
]

/** @param {Facts} facts @returns {Check} */
function upliftCheck({ live }) {
  const [mode] = live.modes
  if (!mode?.uplift || !knownKept(mode.kept)) return { text: 'Uplift: too few wins', ok: null }
  const { at: estimate, lower, upper } = mode.uplift
  const amount = (/** @type {number} */ value) => money(value, currency.value)
  return {
    text: `Uplift: ${amount(estimate)} for 1,000 bids (${amount(lower)} to ${amount(upper)})`,
    ok: lower > 0 ? true : upper < 0 ? false : null,
  }
}

/** @type {readonly { name: string, text: string, checks: (facts: Facts) => Check[] }[]} */
const steps = [
  {
    name: 'Pass through',
    text: 'Requests go through bidweir, and nothing is changed.',
    checks: (facts) => [
      {
        text: `${integer(facts.live.total)} requests in the last minutes`,
        ok: facts.live.total > 0 ? true : null,
      },
      shareCheck(
        failedShare([facts.live]),
        'of the requests sent to the supplier failed',
        'Few requests sent to the supplier fail',
      ),
      shareCheck(
        refusedShare([facts.live]),
        'of the requests were refused',
        'Few requests are refused',
      ),
      {
        text: 'All endpoints are up',
        ok: facts.live.endpoints.every(({ state }) => state === 'up'),
      },
    ],
  },
  {
    name: 'Shadow',
    text: 'OPD decides and records; every bid leaves at its own price.',
    checks: (facts) => [funnelCheck(facts, 'macro', 'Most bids contain the macro')],
  },
  {
    name: 'Notices',
    text: 'Wins are reported, with the context and a plausible price.',
    checks: (facts) => [
      funnelCheck(facts, 'notices', 'Win notices come'),
      funnelCheck(facts, 'attributed', 'They are attributed'),
      funnelCheck(facts, 'plausible', 'Their prices are plausible'),
    ],
  },
  {
    name: 'Share of 5 %',
    text: 'OPD prices 5 % of the auctions.',
    checks: keptChecks,
  },
  {
    name: 'Share of 25 %',
    text: 'OPD prices a quarter of the auctions.',
    checks: (facts) => [...keptChecks(facts), upliftCheck(facts)],
  },
  {
    name: 'On',
    text: 'OPD prices every auction, but those of the holdout.',
    checks: (facts) => [
      ...keptChecks(facts),
      upliftCheck(facts),
      {
        text: `${percent(facts.value === null ? null : (facts.value.opd?.holdout ?? 0.02))} of the auctions are the holdout`,
        ok: facts.value === null ? null : facts.value.opd?.holdout !== 0,
      },
    ],
  },
]

/** What can be set, in the order of the steps. @type {readonly { name: string, step: number, opd: Record<string, unknown> }[]} */
const settings = [
  { name: 'shadow', step: 2, opd: { enabled: 'shadow' } },
  { name: 'a share of 5 %', step: 3, opd: { enabled: true, share: 0.05 } },
  { name: 'a share of 25 %', step: 4, opd: { enabled: true, share: 0.25 } },
  { name: 'on', step: 5, opd: { enabled: true, share: 1 } },
]

/** The step that is being checked: its index. @param {Facts} facts */
function stepOf({ live, value }) {
  const state = live.opd?.state ?? 'off'
  if (state === 'shadow') return 2
  if (state !== 'on') return 0
  const share = value?.opd?.share ?? 1
  return share >= 1 ? 5 : share >= 0.25 ? 4 : 3
}

/** Lines for the configuration file. @param {string} id @param {Record<string, unknown>} opd */
const lines = (id, opd) =>
  `suppliers:\n  - id: ${id}\n    opd:\n${Object.entries(opd)
    .map(([key, value]) => `      ${key}: ${value}`)
    .join('\n')}`

/** @param {{ ssp: string, facts: Facts, again: () => Promise<unknown> }} props */
function Change({ ssp, facts, again }) {
  const [fault, setFault] = useState('')
  const current = stepOf(facts)
  const { live, value, etag } = facts
  const next = settings.find(({ step }) => step > current)
  const open = steps
    .slice(0, current + 1)
    .flatMap(({ checks }) => checks(facts).filter(({ ok }) => !ok))
  const go = async (/** @type {(typeof settings)[number]} */ to, isBack = false) => {
    setFault('')
    try {
      await review(
        ssp,
        { method: 'PATCH', body: { opd: to.opd }, etag },
        {
          title: `${isBack ? 'Back to' : 'Set'} ${to.name} for ${isolated(live.name)}?`,
          text:
            isBack || open.length === 0
              ? 'Every node acts on this within 2 seconds.'
              : `Every node acts on this within 2 seconds. Not yet green: ${open.map(({ text }) => text).join('; ')}.`,
          verb: isBack ? 'Go back' : 'Apply',
          danger: !isBack && open.length > 0,
          done: `${isolated(live.name)}: ${to.name}.`,
          version: value.version,
          again,
        },
      )
    } catch (error) {
      setFault(/** @type {Error} */ (error).message)
    }
  }
  if (value === null)
    return html`<p class="soft">An operator of the account * takes the next step.</p>`
  if (value.origin === 'file')
    return html`<p>The configuration file sets this supplier. ${
      next === undefined
        ? 'To go back to shadow, change'
        : `For the next step, ${next.name}, change`
    } these lines; the file is reloaded by itself.</p>
      <pre tabindex="0">${lines(ssp, (next ?? settings[0])?.opd ?? {})}</pre>`
  return html`<div class="row">
      ${next !== undefined && html`<button type="button" class="primary" onClick=${() => go(next)}>Next: ${next.name}</button>`}
      ${current > 2 && html`<button type="button" onClick=${() => settings[0] && go(settings[0], true)}>Back to shadow</button>`}
    </div>${fault !== '' && html`<p class="fault" role="alert">${fault}</p>`}`
}

/** @param {Check} check */
const level = ({ ok }) => (ok === null ? 'none' : ok ? 'ok' : 'bad')
const words = { ok: 'OK', bad: 'Not OK', none: 'Not known' }

/** @param {{ ssp: string }} props */
function Steps({ ssp }) {
  const isOperator = may('operator') && seesAll.value
  const found = useRead(
    async () => {
      const query = `?ssp=${encodeURIComponent(ssp)}`
      const [live, funnel, response] = await Promise.all([
        call(`/api/svc/live/${query}`),
        call(`/api/svc/funnel/${query}`),
        isOperator ? request(pathOf(ssp)) : null,
      ])
      const value = response && (await response.json())
      const etag = response?.headers.get('etag') ?? null
      return { live: live.integrations[0], funnel: funnel.suppliers[0], value, etag }
    },
    ['go-live', ssp, isOperator],
    every,
  )
  const again = () => Promise.all([found.again(), readLive()])
  return loaded(found, (/** @type {Facts} */ facts) => {
    const current = stepOf(facts)
    return html`<${Change} ssp=${ssp} facts=${facts} again=${again} />
      <ol class="steps">${steps.map(
        (
          { name, text, checks },
          index,
        ) => html`<li key=${name} class="sheet" aria-current=${index === current ? 'step' : undefined}>
          <h2>${index + 1}. ${name} ${index === current && html`<small class="tag">now</small>`}</h2><p>${text}</p>
          <ul class="lines">${checks(facts).map(
            (check) =>
              html`<li key=${check.text}><span>${check.text}</span><${Level} level=${level(check)} label=${words[level(check)]} /></li>`,
          )}</ul></li>`,
      )}</ol>`
  })
}

export function GoLive() {
  const options = supplierOptions()
  const ssp = route.value.rest[0] ?? options[0]?.[0]
  if (options.length === 0) return html`<h1>Go live</h1><${NoSupplier} />`
  if (ssp === undefined || !options.some(([id]) => id === ssp))
    return html`<h1>Go live</h1><p class="box">“${ssp}” does not exist, or belongs to another account. <a href="#/">All suppliers</a></p>`
  return html`<div class="row"><h1>Go live</h1>
      <${Pick} label="Supplier" value=${ssp} options=${options} pick=${(
        /** @type {string} */ id,
      ) => {
        location.hash = `#/go-live/${encodeURIComponent(id)}`
      }} />
      <a href=${`#/supplier/${encodeURIComponent(ssp)}`}>Its figures</a></div>
    <p>Take the next step when the checks of the steps so far are green. Before the share, <code>bidweir replay</code> shows what OPD would have done with a recorded log.</p>
    <${Steps} key=${ssp} ssp=${ssp} />`
}
