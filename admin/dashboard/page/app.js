/** The dashboard: log-in, polling and drawing. Tokens are stored for this tab only. */
import { card, holdButton, unplacedCard } from './view.js'

const every = 2000
/** Polls in five minutes. */
const longest = 150
const $ = (id) => document.getElementById(id)
const { realm } = await (await fetch('/dashboard/settings.json')).json()
const kept = 'bidweir'
let tokens = JSON.parse(sessionStorage.getItem(kept) ?? 'null')
let refreshing = null
let polling = null
/** Rates by integration, and the last counts. */
const past = new Map()
const roleMissing = 'This user lacks a role: at least viewer is required'

function keep(next) {
  tokens = next
  if (next === null) sessionStorage.removeItem(kept)
  else sessionStorage.setItem(kept, JSON.stringify(next))
}

/** `keepalive`: the request is sent even if the page is closed meanwhile. */
const post = (name, fields, keepalive = false) =>
  fetch(`/auth/realms/${realm}/protocol/openid-connect/${name}`, {
    method: 'POST',
    body: new URLSearchParams({ client_id: 'public-client', ...fields }),
    keepalive,
  })

async function grant(fields) {
  const answer = await post('token', fields)
  const body = await answer.json()
  if (answer.ok) return { access: body.access_token, refresh: body.refresh_token }
  const wait = answer.headers.get('retry-after')
  const why = wait === null ? body.error_description : `Too many attempts: wait ${wait} s`
  // only a 400 ends the session, a restart of the service does not
  throw Object.assign(new Error(why ?? body.title), { rejected: answer.status === 400 })
}

/** One refresh at a time, since a refresh token is valid once. */
function renew() {
  refreshing ??= grant({
    grant_type: 'refresh_token',
    refresh_token: tokens?.refresh ?? '',
  })
    .then((next) => {
      // If the user has logged out meanwhile, the session of the new tokens has ended too.
      if (tokens !== null) keep(next)
    })
    .finally(() => {
      refreshing = null
    })
  return refreshing
}

async function call(path, method = 'GET', body = undefined) {
  const send = () =>
    fetch(path, {
      method,
      headers: {
        authorization: `Bearer ${tokens?.access}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  let answer = await send()
  if (answer.status === 401 && tokens?.refresh) {
    await renew().catch((error) => {
      if (error.rejected) leave('Your session has ended: log in again')
      throw error
    })
    answer = await send()
  }
  if (answer.status === 401 || answer.status === 403) {
    if (method === 'GET') leave(answer.status === 403 ? roleMissing : 'Log in again')
    throw new Error(answer.status === 403 ? 'this user may not do that' : 'not logged in')
  }
  const value = await answer.json()
  if (answer.ok) return value
  throw new Error(value.errors?.[0]?.detail ?? value.title ?? `the response was ${answer.status}`)
}

function show(board) {
  $('board').hidden = !board
  $('login').hidden = board
  $('leave').hidden = !board
}

function leave(why = '') {
  keep(null)
  clearTimeout(polling)
  past.clear()
  show(false)
  $('state').textContent = ''
  $('fault').textContent = why
}

/** Ends the session at the service too, since there may be other copies of the refresh token. */
async function logOut() {
  const token = tokens?.refresh
  leave()
  if (!token) return
  const answer = await post('revoke', { token }, true).catch(() => null)
  if (answer?.ok !== true)
    $('fault').textContent = 'Logged out here, but the service did not respond'
}

function remember(live, at) {
  const [mode] = live.modes
  const bids = mode?.bids ?? 0
  const margin = (mode?.margin ?? 0) / 1000
  const own = past.get(live.ssp) ?? { rates: [], last: null }
  past.set(live.ssp, own)
  // counts restart at 0 with the node: no rate is computed then
  if (own.last !== null && at > own.last.at && bids >= own.last.bids) {
    const seconds = (at - own.last.at) / 1000
    own.rates.push({
      bids: (bids - own.last.bids) / seconds,
      margin: ((margin - own.last.margin) / seconds) * 60,
    })
    if (own.rates.length > longest) own.rates.shift()
  }
  own.last = { at, bids, margin }
  return own.rates
}

const acts = {
  seat: (ssp, { name, is_active }) =>
    change(`/api/svc/ssp/${ssp}/`, { dsp_seats: [{ name, is_active: !is_active }] }),
  center: (ssp, { location, is_active }) =>
    change(`/api/svc/ssp/${ssp}/`, { datacenters: [{ location, is_active: !is_active }] }),
  hold: (ssp, hold) => change(`/api/svc/opd/${ssp}/`, { hold }),
}

async function change(path, body) {
  try {
    await call(path, 'PUT', body)
    await draw()
  } catch (error) {
    $('state').textContent = `Not changed: ${error.message}`
  }
}

async function draw() {
  const [live, list] = await Promise.all([call('/api/svc/live/'), call('/api/svc/ssp/')])
  // the user may have logged out meanwhile
  if (tokens === null) return
  const suppliers = new Map(list.map((each) => [each.id, each]))
  $('where').textContent = live.location
  const cards = live.integrations.map((each) =>
    card(each, suppliers.get(each.ssp) ?? null, remember(each, live.at), live, acts),
  )
  // The same button gets the focus again after the redraw.
  const buttons = () => [...$('board').querySelectorAll('button')]
  const at = buttons().indexOf(document.activeElement)
  $('all').replaceChildren(
    holdButton('all integrations', live.heldAll, live.operator, () =>
      acts.hold('*', !live.heldAll),
    ),
  )
  $('cards').replaceChildren(...cards, ...unplacedCard(live.unplaced))
  if (at >= 0) buttons()[at]?.focus()
  $('state').textContent = `as of ${new Date(live.at).toLocaleTimeString()}`
}

async function poll() {
  clearTimeout(polling)
  try {
    await draw()
  } catch (error) {
    if (tokens !== null) $('state').textContent = `Not up to date: ${error.message}`
  }
  if (tokens !== null) polling = setTimeout(poll, every)
}

$('people').hidden = realm === null
$('bring').hidden = realm !== null
$('leave').addEventListener('click', () => void logOut())
$('login').addEventListener('submit', async (event) => {
  event.preventDefault()
  $('fault').textContent = ''
  try {
    if (realm === null) keep({ access: $('token').value.trim(), refresh: null })
    else
      keep(
        await grant({
          grant_type: 'password',
          username: $('username').value,
          password: $('password').value,
        }),
      )
    $('password').value = ''
    $('token').value = ''
    show(true)
    await poll()
  } catch (error) {
    $('fault').textContent = error.message
  }
})
show(tokens !== null)
if (tokens !== null) await poll()
