/** The console: log-in, navigation, and the screen that is chosen. */
import { effect } from '@preact/signals'
import { render } from 'preact'
import { useState } from 'preact/hooks'
import { Dialog, Message } from './actions.js'
import { Term } from './components.js'
import { clock, localZone, setZone, zone, zones } from './format.js'
import { Pick, withFields } from './forms.js'
import { html } from './html.js'
import * as issuer from './issuer-log-in.js'
import { route } from './route.js'
import { Alerts } from './screens/alerts.js'
import { Audit } from './screens/audit.js'
import { Configuration } from './screens/configuration.js'
import { Explain } from './screens/explain.js'
import { GoLive } from './screens/go-live.js'
import { Holds } from './screens/holds.js'
import { MinutesScreen } from './screens/minutes.js'
import { Models } from './screens/models.js'
import { Nodes, Problems } from './screens/nodes.js'
import { Reports } from './screens/reports.js'
import { Supplier } from './screens/supplier.js'
import { Suppliers } from './screens/suppliers.js'
import { Users } from './screens/users.js'
import { finishLogIn, logIn, logOut, notice, settings, tokens } from './session.js'
import { live, poll, showNode, shownNode, stale } from './state.js'

/** @type {Readonly<Record<string, { title: string, view: () => import('./html.js').Shown, hidden?: boolean }>>} */
const screens = {
  suppliers: { title: 'Suppliers', view: Suppliers },
  supplier: { title: 'Supplier', view: Supplier, hidden: true },
  alerts: { title: 'Alerts', view: Alerts },
  minutes: { title: 'Last two days', view: MinutesScreen },
  reports: { title: 'Reports', view: Reports },
  'go-live': { title: 'Go live', view: GoLive },
  holds: { title: 'Holds', view: Holds },
  explain: { title: 'Explain a bid', view: Explain },
  models: { title: 'Models', view: Models },
  audit: { title: 'Audit', view: Audit },
  configuration: { title: 'Configuration', view: Configuration },
  users: { title: 'Users', view: Users },
  nodes: { title: 'Nodes', view: Nodes },
}

/** By name and password with the embedded realm, else at the issuer. */
function LogIn() {
  const [busy, setBusy] = useState(false)
  const { external } = settings
  const submit = withFields(async (field) => {
    notice.value = ''
    setBusy(true)
    try {
      if (external !== null) await issuer.start(external)
      else await logIn(field('username'), field('password'))
    } catch (error) {
      notice.value = /** @type {Error} */ (error).message
    } finally {
      setBusy(false)
    }
  })
  return html`<main class="log-in"><form onSubmit=${submit}>
    <h1>bidweir</h1>
    ${
      external === null
        ? html`<label>User <input name="username" autocomplete="username" required autofocus /></label>
          <label>Password <input name="password" type="password" autocomplete="current-password" required /></label>`
        : html`<p>You log in at <strong>${new URL(external.issuer).host}</strong>.</p>`
    }
    <p class="fault" role="alert">${notice}</p>
    <button type="submit" class="primary" disabled=${busy} aria-busy=${busy}>${busy ? 'Working…' : 'Log in'}</button>
  </form></main>`
}

const more = ' Buttons that you may not use are not shown.'
/** What the caller may not do, and what it takes; undefined: nothing is withheld. @param {{ role: string | null, account: string }} caller */
function withheld({ role, account }) {
  if (role === 'viewer')
    return `You read. To change seats, data centers and allotments takes the role api, all else the role operator.${more}`
  if (role === 'api')
    return `You change seats, data centers and allotments. All else takes the role operator.${more}`
  return account === '*'
    ? undefined
    : `You act on the suppliers of your account. Configuration, go-live, models and users take the account *.${more}`
}

function Header() {
  const now = live.value
  const nodes = now?.nodes.map(({ node, location }) => [node, `${node}, ${location}`]) ?? []
  const named = [...new Set([zone.value, ...zones])].map((name) => [
    name,
    name === localZone && name !== 'UTC' ? `${name} (browser)` : name,
  ])
  const showZone = (/** @type {string} */ name) => {
    setZone(name)
    void poll()
  }
  return html`<header>
    <div class="bar">
      <a class="brand" href="#/">bidweir</a>
      ${now && html`<${Pick} label="Figures of" value=${shownNode.value} pick=${showNode} options=${[['', `all nodes (${nodes.length})`], ...nodes]} />`}
      <${Pick} label="Time zone" value=${zone.value} pick=${showZone} options=${named} />
      <span class="soft as-of">${now && `as of ${clock(now.at)}`}</span>
      <span class="who">${now && html`${now.caller.name} <small class="soft"><${Term} name=${`${now.caller.role}, account ${now.caller.account}`} text=${withheld(now.caller)} /></small>`}</span>
      <button type="button" onClick=${() => void logOut()}>Log out</button>
    </div>
    <nav aria-label="Screens"><ul>${Object.entries(screens).map(
      ([name, { title, hidden }]) =>
        !hidden &&
        html`<li key=${name}><a href=${`#/${name}`} aria-current=${
          route.value.screen === name || (name === 'suppliers' && route.value.screen === 'supplier')
            ? 'page'
            : undefined
        }>${title}</a></li>`,
    )}</ul></nav>
  </header>`
}

/** The fragment of the address names the screen, so the link moves the focus by itself. @param {Event} event */
function skip(event) {
  event.preventDefault()
  document.getElementById('content')?.focus()
}

function App() {
  if (tokens.value === null) return html`<${LogIn} />`
  const screen = screens[route.value.screen]
  const since = live.value === null ? '' : ` The figures below are of ${clock(live.value.at)}.`
  return html`<a class="skip" href="#content" onClick=${skip}>Skip to the content</a>
    <${Header} />
    <main id="content" tabindex="-1" class=${stale.value === '' ? '' : 'stale'}>
      ${stale.value !== '' && html`<p class="box bad" role="alert">Not up to date: ${stale}. The page tries again by itself.${since}</p>`}
      <${Message} />
      <${Problems} />
      ${
        live.value === null
          ? html`<h1>${screen?.title ?? 'bidweir'}</h1><p class="soft">${stale.value === '' ? 'Loading…' : 'No figures yet.'}</p>`
          : screen === undefined
            ? html`<h1>No such screen</h1><p><a href="#/">Suppliers</a></p>`
            : html`<${screen.view} key=${route.value.rest.join('/')} />`
      }
    </main>
    <${Dialog} />`
}

effect(() => {
  const { screen, rest } = route.value
  const name = screens[screen]?.title ?? ''
  const suppliers = live.value?.integrations.filter(({ health }) => health.level === 'bad') ?? []
  const nodes =
    live.value?.nodes.filter(({ problems }) => problems.some(({ level }) => level === 'bad')) ?? []
  const faults = suppliers.length + nodes.length
  const alert = faults === 0 ? '' : `(${faults}) `
  document.title = alert + [rest[0], name, 'bidweir'].filter(Boolean).join(' · ')
})
effect(() => {
  if (tokens.value !== null && live.peek() === null) void poll()
})

await finishLogIn()
const place = /** @type {HTMLElement} */ (document.getElementById('app'))
place.replaceChildren()
render(html`<${App} />`, place)
