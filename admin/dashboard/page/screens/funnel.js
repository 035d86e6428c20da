/** What OPD earned, and what stops it: one sentence for all suppliers, and the steps of one. */
import { useState } from 'preact/hooks'
import { loaded, Name, Term, useRead } from '../components.js'
import { amountOf, digitsOf, integer, money, percent, sentence } from '../format.js'
import { html } from '../html.js'
import { call } from '../session.js'
import { funnel, live, reportsEvery } from '../state.js'

/** @import { Funnel as FunnelAnswer, FunnelSupplier } from '../../../fleet/funnel-route.ts' */

const stepWords = {
  requests: 'Requests',
  answered: 'Answered',
  bids: 'Bids',
  macro: 'With macro',
  priced: 'Decided',
  notices: 'Win notices',
  attributed: 'Attributed',
  plausible: 'Plausible price',
}

/** What OPD earned today, with its interval. @param {NonNullable<FunnelAnswer['earned']>} earned @param {string} currency */
function earnings({ at: amount, lower, upper }, currency) {
  const ends = [lower, upper]
  const digits = digitsOf(ends)
  const range = ends.map((end) => amountOf(end, digits)).join(' to ')
  return html`Today OPD ${amount < 0 ? 'lost' : 'earned'} <strong>${money(Math.abs(amount), currency)}</strong> (${range}, by the holdout)`
}

/** @param {FunnelAnswer} answer */
function earnedWords({ earned, bids, wins, lostWins, currency }) {
  if (bids === 0) return 'OPD has priced no bid today.'
  if (earned === null)
    return `OPD has priced ${integer(bids)} ${bids === 1 ? 'bid' : 'bids'} today. What it earned is not known yet: too few wins, or no holdout to compare with.`
  const cost =
    lostWins < 0
      ? `won ${integer(-lostWins)} more than the ${integer(wins + lostWins)} wins`
      : `cost ${integer(lostWins)} of the ${integer(wins + lostWins)} wins`
  return html`${earnings(earned, currency)}, and ${cost} that full prices would have won.`
}

/** @param {FunnelSupplier} supplier */
const stakeOf = ({ faults }) => faults.reduce((sum, { perDay }) => sum + (perDay ?? 0), 0)

/** Suppliers that are named beside the sentence. */
const mostNamed = 5

/** What all suppliers earned today, and what stops the others. */
export function Earned() {
  const now = funnel.value
  if (now === null || live.value?.integrations.length === 0) return null
  const { suppliers, currency, perDay } = now
  const more =
    suppliers.length === 0
      ? ''
      : perDay === null
        ? 'More is possible:'
        : html`<strong>${money(perDay, currency)}</strong> a day more is possible:`
  return html`<section class="sheet earned" aria-label="What OPD earned today">
    <p class="lead">${earnedWords(now)} ${more}</p>
    ${
      suppliers.length > 0 &&
      html`<ul>${suppliers.slice(0, mostNamed).map(
        (supplier) => html`<li key=${supplier.ssp}>
          <a href=${`#/supplier/${encodeURIComponent(supplier.ssp)}`}><${Name} name=${supplier.name} /></a>: ${supplier.faults.map(({ text }) => text).join('; ')}${
            supplier.faults.some((fault) => fault.perDay !== null) &&
            html` <span class="soft">${money(stakeOf(supplier), currency)} a day</span>`
          }</li>`,
      )}</ul>${
        suppliers.length > mostNamed &&
        html`<p class="soft">And ${integer(suppliers.length - mostNamed)} more with the state Warning below.</p>`
      }`
    }
    <p class="soft">Since midnight UTC, all nodes. ${
      now.unchecked.length > 0 &&
      `Without ${now.unchecked.length === 1 ? 'one supplier' : `${integer(now.unchecked.length)} suppliers`} whose win notices do not prove what was earned.`
    }</p>
  </section>`
}

/** Copies a text for a mail. @param {{ text: string }} props */
function CopyMail({ text }) {
  const [said, say] = useState('')
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => say('Copied.'),
      () => say('The browser does not permit it: select the text below.'),
    )
  return html`<details><summary>Mail to the supplier</summary><p class="mail">${text}</p>
    <div class="row"><button type="button" onClick=${copy}>Copy</button><span class="soft" role="status">${said}</span></div></details>`
}

/** What OPD earned today with one supplier. @param {FunnelSupplier} supplier @param {FunnelAnswer} all */
function ownEarnings({ ssp, earned, opd }, { currency, unchecked }) {
  if (opd !== 'on') return null
  if (unchecked.includes(ssp))
    return html`<p class="lead">What OPD earned today is not proven by win notices.</p>`
  if (earned === null)
    return html`<p class="lead">What OPD earned today is not known yet: too few wins, or no holdout to compare with.</p>`
  return html`<p class="lead">${earnings(earned, currency)}.</p>`
}

/** @param {FunnelSupplier} supplier @param {FunnelAnswer} all */
function steps(supplier, all) {
  const { steps, faults, name } = supplier
  const { currency, window } = all
  const most = Math.max(1, ...steps.map(({ count }) => count))
  const minutes = Math.max(1, Math.round(window / 60))
  return html`${ownEarnings(supplier, all)}
    ${faults.map(
      ({ text, fix, mail, bids, perDay }) => html`<div key=${text} class="box warn">
        <p><strong>${sentence(text)}</strong> ${fix}</p>
        <p>At stake: ${perDay === null ? 'not known, since no uplift is known yet' : html`<strong>${money(perDay, currency)}</strong> a day`} (${integer(bids)} bids a day at the present rate).</p>
        <${CopyMail} text=${mail} /></div>`,
    )}
    <table class="bars"><caption class="hidden">How far the bids of ${name} come</caption>
      <thead><tr><th scope="col">Step</th><th scope="col" class="number">Count</th><th scope="col">Share of the step before</th></tr></thead>
      <tbody>${steps.map(({ step, count, share }) => {
        const stops = faults.some((fault) => fault.step === step)
        return html`<tr key=${step}><th scope="row"><${Term} name=${stepWords[step]} />${stops && html` <span class="level warn"><span aria-hidden="true">!</span> stops here</span>`}</th>
          <td class="number">${integer(count)}</td>
          <td><span class="bar-of" style=${{ width: `${(50 * count) / most}%` }}></span> ${share === null ? '' : percent(share)}</td></tr>`
      })}</tbody></table>
    <p class="soft">The last ${minutes} min, all nodes.</p>`
}

/** The steps of one supplier, with what stops its bids. @param {{ ssp: string }} props */
export function Funnel({ ssp }) {
  const found = useRead(
    () => call(`/api/svc/funnel/?ssp=${encodeURIComponent(ssp)}`),
    ['funnel', ssp],
    reportsEvery,
  )
  return html`<section class="sheet"><h2>From request to earnings</h2>
    ${loaded(found, (/** @type {FunnelAnswer} */ all) => {
      const [supplier] = all.suppliers
      return supplier === undefined || supplier.steps.every(({ count }) => count === 0)
        ? html`<p class="soft">No requests in the last minutes. Bid requests to <code>${`/bid/${ssp}`}</code>, and calls with this supplier, appear here.</p>`
        : steps(supplier, all)
    })}</section>`
}
