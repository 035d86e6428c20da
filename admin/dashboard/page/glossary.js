/** Explanations of the terms of the page, for its tooltips. */

const interval =
  ' The range beside it contains the true value with 95% probability, at whatever moment you look. More bids make it narrower.'

/** @type {Readonly<Record<string, string>>} */
export const glossary = {
  'Kept wins':
    'Win rate of optimized bids divided by the win rate of the holdout, the bids that are left at their own price. 100% means that lower prices cost no wins. The floor is minWinRate of the configuration. The last 7 days of all nodes, restarts included; of one node alone, since it started.' +
    interval,
  'Kept spend':
    'Spend (wins weighted by their inbound price) per optimized bid, divided by the same of the holdout. It shows whether expensive wins are lost. The floor is minSpend of the configuration. The same days as kept wins.' +
    interval,
  'Margin today':
    'Revenue minus cleared prices of the wins since midnight in the time zone of the page, from the store: all nodes, restarts included. Not proven: the win notices of the supplier are missing, refused or not plausible. A cleared price above the revenue makes it negative.',
  Discrepancy:
    'Cleared prices minus the prices that were sent, as a share of these. Second-price auctions and errors of reporting make it negative.',
  'Cleared minus sent': 'Cleared prices of wins minus the prices of their bids as they were sent.',
  Margin: 'Revenue minus cleared prices of wins, in currency units.',
  Uplift:
    'Margin of optimized bids minus margin of the holdout, for 1,000 bids: what optimization earns. The same days as kept wins.' +
    interval,
  'Requests / s': 'Bid requests a second, averaged over the last minutes.',
  'No bid': 'Share of the requests sent to the supplier that it answered without a bid.',
  Failed:
    'Share of the requests sent to the supplier that had no answer in time (time-out) or no whole answer at all (error). Requests that bidweir refused itself were not sent.',
  Refused:
    'Share of all requests that bidweir refused itself, mostly without sending them: the supplier or the node is overloaded, the data center is inactive or over its allotment, or the caller may not send bids.',
  'p50 / p99':
    'How long the supplier took for the requests of the last minutes: half of them at most the first time, 99% at most the second. Requests that were not sent do not count. Estimated from a histogram.',
  'Wins today':
    'Win notices attributed to a decision, and bids that OPD decided, since midnight in the time zone of the page. From the store: all nodes.',
  'Win rate':
    'Wins divided by decided bids. Wins arrive later than bids, so the last minutes look low.',
  State:
    'Red: something is broken or surely below its floor. Amber: look at it; the reason and what to do are beside it. Green: no fault seen. Grey: no requests, so nothing is known.',
  Hold: 'While an integration is on hold, its bids leave at their own price (factor 1), on every node. Bids continue.',
  Factor: 'Outbound price divided by inbound price. 1 leaves the price as it is.',
  Guard:
    'A check that holds prices at factor 1, or limits their reduction, while it sees a problem.',
  Source:
    'How the bids came: in bid responses through the proxy, by standalone calls, or by agent calls of an exchange.',
  Seat: 'A buyer behind the supplier. Bids of an inactive seat are removed from bid responses.',
  'Data center':
    'A location of this service. The supplier gets no requests from an inactive data center, and at most its allotment.',
  Allotment:
    'The most requests a second that a data center may send to the supplier, shared by its nodes. It may not exceed the sum of the allotments of the seats there.',
  'With macro':
    'Bids with the text svc_opd=${SVC_OPD_CONTEXT} in nurl, burl or adm. OPD prices no other bid.',
  Decided:
    'Bids that OPD decided: priced, explored, or left for the holdout. Others stay unchanged, for example for a fixed price.',
  'Win notices':
    'Notices of wins of these minutes, without repeated ones. Their share is the win rate.',
  Attributed: 'Notices of which the decision is known.',
  'Plausible price':
    'Wins that cleared at half of the price sent or above, as a share of the wins with a price.',
  'Left unchanged': 'Bids and bid responses that OPD did not price, by reason.',
  Notices:
    'Win notices by status. Duplicate: reported before. Unattributed: no decision is known for it. Rejected: not valid.',
  Freeze: 'A frozen model keeps its prices and learns nothing, on every node.',
  'Roll back': 'The model returns to a snapshot. What it learned later is lost.',
  Reset: 'The model forgets what it learned about one supplier and begins again.',
  Epoch: 'Rises with each roll-back. Bids from before a roll-back do not train the model after it.',
  Arm: 'What was done with a bid: optimized (treated), explored (random price, to learn), holdout (left), floor (the price is at the floor, no room below it), below floor (the bid cannot win), or another reason to leave it.',
  Propensity: 'Probability with which a bid is put into its arm.',
  'Chance of winning': 'Probability of winning at a price, as the model estimates it now.',
  Theta:
    'Multiplier of spend. It rises while kept spend is below its floor, and makes prices higher.',
  Lambda:
    'Multiplier of wins, CPM. It rises while kept wins are below the floor, and makes prices higher.',
  CPM: 'Price of 1,000 impressions.',
}
