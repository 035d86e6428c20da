/** Elements of the page. Names of suppliers are inserted as text, never as markup. */
export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) {
    if (key === 'onclick') node.addEventListener('click', value)
    else if (value === true) node.setAttribute(key, '')
    else if (value !== false && value !== undefined) node.setAttribute(key, String(value))
  }
  node.append(...children)
  return node
}

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })
const rate = new Intl.NumberFormat('en', { maximumFractionDigits: 1 })
const money = new Intl.NumberFormat('en', { minimumFractionDigits: 2, maximumFractionDigits: 2 })
const fine = new Intl.NumberFormat('en', { maximumSignificantDigits: 3, signDisplay: 'exceptZero' })
const percent = new Intl.NumberFormat('en', { style: 'percent', maximumFractionDigits: 1 })

const between = (interval, format) =>
  interval === null
    ? 'no holdout wins to compare with'
    : `${format.format(interval.lower)} to ${format.format(interval.upper)} (95 %)`

function figure(name, value, note) {
  return el('div', {}, el('dt', {}, name), el('dd', {}, value, el('small', {}, note)))
}

/** A line chart of the last minutes; `values` oldest first. */
function chart(title, values, format) {
  const space = 'http://www.w3.org/2000/svg'
  const svg = document.createElementNS(space, 'svg')
  const set = (node, pairs) => {
    for (const [key, value] of Object.entries(pairs)) node.setAttribute(key, value)
  }
  const now = format.format(values.at(-1) ?? 0)
  set(svg, {
    preserveAspectRatio: 'none',
    role: 'img',
    'aria-label': `${title}: now ${now}`,
  })
  const high = Math.max(...values, 1e-9)
  // the width is at least 30 values
  const room = Math.max(values.length, 30)
  const low = Math.min(...values, 0)
  const y = (value) => 38 - ((value - low) / (high - low)) * 36
  set(svg, { viewBox: `0 0 ${room - 1} 40` })
  const path = document.createElementNS(space, 'path')
  const start = room - values.length
  const points = values.map((value, at) => `${start + at} ${y(value).toFixed(2)}`)
  set(path, { d: points.length > 1 ? `M${points.join('L')}` : '' })
  svg.append(path)
  return el('div', {}, el('h3', {}, `${title}: ${now}`), svg)
}

function table(title, rows) {
  const shown = rows.length > 0 ? rows : [['none', '']]
  return el(
    'div',
    {},
    el('h3', {}, title),
    el(
      'table',
      { 'aria-label': title },
      ...shown.map(([name, value]) =>
        el('tr', {}, el('th', { scope: 'row' }, name), el('td', {}, value)),
      ),
    ),
  )
}

const counted = (counts) =>
  Object.entries(counts)
    .sort(([, a], [, b]) => b - a)
    .map(([name, count]) => [name.replaceAll('_', ' '), whole.format(count)])

function toggle(label, on, act) {
  const words = on ? 'active' : 'inactive'
  return el(
    'button',
    { type: 'button', 'aria-pressed': on, 'aria-label': `${label}: ${words}`, onclick: act },
    words,
  )
}

export function holdButton(name, held, operator, act) {
  return el(
    'button',
    { type: 'button', 'aria-pressed': held, disabled: !operator, onclick: act },
    held ? `Release ${name}` : `Hold ${name}`,
  )
}

const marginNote = (mode, currency, wins) => {
  const share =
    mode?.revenue > 0 ? `, ${percent.format(mode.margin / mode.revenue)} of revenue` : ''
  return `${currency ?? 'base currency'}, ${whole.format(wins)} ${wins === 1 ? 'win' : 'wins'}${share}`
}

const states = { on: '', shadow: ', in shadow', off: ', OPD off', invalid: ', OPD off: invalid' }

function modeText({ opd, modes: [mode] }) {
  if (opd === null) return mode ? `mode ${mode.mode}` : 'OPD off'
  return mode || opd.state !== 'off' ? `mode ${opd.mode}${states[opd.state]}` : 'OPD off'
}

/** Notices without an integration, which help to find missing wins. */
export function unplacedCard(counts) {
  if (Object.keys(counts).length === 0) return []
  return [
    el(
      'article',
      { class: 'card' },
      el('h2', {}, 'Notices without an integration'),
      el('div', { class: 'tables' }, table('Notices by status', counted(counts))),
    ),
  ]
}

/** One integration: `past` are its rates, `supplier` its seats and data centers, null until they are read. */
export function card(live, supplier, past, { operator, currency }, acts) {
  const [mode] = live.modes
  const now = past.at(-1)
  const wins = live.impressions['attributed'] ?? 0
  const figures = el(
    'dl',
    { class: 'figures' },
    figure(
      'Bids a second',
      rate.format(now?.bids ?? 0),
      `${whole.format(mode?.bids ?? 0)} since the start`,
    ),
    figure('Margin', money.format((mode?.margin ?? 0) / 1000), marginNote(mode, currency, wins)),
    figure(
      'Kept win rate',
      mode?.kept ? percent.format(mode.kept.at) : '–',
      between(mode?.kept ?? null, percent),
    ),
    figure(
      'Uplift, CPM a bid',
      mode?.uplift ? fine.format(mode.uplift.at) : '–',
      between(mode?.uplift ?? null, fine),
    ),
  )
  const limit = live.allotment
  const tables = el(
    'div',
    { class: 'tables' },
    chart(
      'Bids a second',
      past.map(({ bids }) => bids),
      rate,
    ),
    chart(
      'Margin a minute',
      past.map(({ margin }) => margin),
      money,
    ),
    table('Notices by status', counted(live.impressions)),
    table('Left unchanged', counted(live.left)),
    table(
      'Endpoints',
      live.endpoints.map(({ url, state, failures }) => [
        url,
        state === 'up' ? state : `${state}, ${whole.format(failures)} failures in a row`,
      ]),
    ),
    table(
      'Allotment',
      limit === null
        ? []
        : [
            ['requests a second', limit.qps === null ? 'no limit' : rate.format(limit.qps)],
            ['refused', whole.format(limit.refused)],
          ],
    ),
    table(
      'Seats',
      (supplier?.dsp_seats ?? []).map((seat) => [
        seat.name,
        toggle(`Seat ${seat.name}`, seat.is_active, () => acts.seat(live.ssp, seat)),
      ]),
    ),
    table(
      'Data centers',
      (supplier?.datacenters ?? []).map((center) => [
        `${center.location} (${center.client_qps ?? 'no limit'})`,
        toggle(`Data center ${center.location}`, center.is_active, () =>
          acts.center(live.ssp, center),
        ),
      ]),
    ),
  )
  const hold = holdButton(live.ssp, live.held, operator, () => acts.hold(live.ssp, !live.held))
  const title = el('h2', {}, live.name, ' ', el('small', {}, modeText(live)))
  const held = el('strong', { class: 'bad' }, live.held ? 'held at factor 1' : '')
  return el(
    'article',
    { class: 'card' },
    el('div', { class: 'top' }, title, held, hold),
    figures,
    tables,
  )
}
