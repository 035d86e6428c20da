/** The console: log-in, navigation, and the screen that is chosen. */
import { effect } from '@preact/signals'
import { render } from 'preact'
import { Dialog, Said } from './actions.js'
import { clock, localZone, setZone, zone, zones } from './format.js'
import { html } from './html.js'
import { route } from './route.js'
import { Audit } from './screens/audit.js'
import { Configuration } from './screens/configuration.js'
import { Explain } from './screens/explain.js'
import { Holds } from './screens/holds.js'
import { LogIn } from './screens/log-in.js'
import { Models } from './screens/models.js'
import { Nodes } from './screens/nodes.js'
import { Problems } from './screens/problems.js'
import { Supplier } from './screens/supplier.js'
import { Suppliers } from './screens/suppliers.js'
import { Users } from './screens/users.js'
import { finishLogIn, logOut, tokens } from './session.js'
import { live, poll, shownNode, stale } from './state.js'

/** @type {Readonly<Record<string, { title: string, view: () => import('./html.js').Shown, hidden?: boolean }>>} */
const screens = {
  suppliers: { title: 'Suppliers', view: Suppliers },
  supplier: { title: 'Supplier', view: Supplier, hidden: true },
  holds: { title: 'Holds', view: Holds },
  explain: { title: 'Explain a bid', view: Explain },
  models: { title: 'Models', view: Models },
  audit: { title: 'Audit', view: Audit },
  configuration: { title: 'Configuration', view: Configuration },
  users: { title: 'Users', view: Users },
  nodes: { title: 'Nodes', view: Nodes },
}

function Scope() {
  const now = live.value
  if (now === null) return null
  const many = now.nodes.length
  return html`<label class="pick">Figures of
    <select value=${shownNode.value} onChange=${(/** @type {Event} */ event) => {
      shownNode.value = /** @type {HTMLSelectElement} */ (event.target).value
      void poll()
    }}>
      <option value="">all nodes (${many})</option>
      ${now.nodes.map(({ node, location }) => html`<option key=${node} value=${node}>${node}, ${location}</option>`)}
    </select></label>`
}

function Header() {
  const now = live.value
  return html`<header>
    <div class="bar">
      <a class="brand" href="#/">bidweir</a>
      <${Scope} />
      <label class="pick">Time zone
        <select value=${zone.value} onChange=${(/** @type {Event} */ event) => {
          setZone(/** @type {HTMLSelectElement} */ (event.target).value)
          void poll()
        }}>${zones.map((name) => html`<option key=${name} value=${name}>${name}${name === localZone && name !== 'UTC' ? ' (browser)' : ''}</option>`)}</select></label>
      <span class="soft as-of">${now && `as of ${clock(now.at)}`}</span>
      <span class="who">${now && html`${now.caller.name} <small class="soft">${now.caller.role}, account ${now.caller.account}</small>`}</span>
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

function App() {
  if (tokens.value === null) return html`<${LogIn} />`
  const screen = screens[route.value.screen]
  const since = live.value === null ? '' : ` The figures below are of ${clock(live.value.at)}.`
  return html`<${Header} />
    <main class=${stale.value === '' ? '' : 'stale'}>
      ${stale.value !== '' && html`<p class="box bad" role="alert">Not up to date: ${stale}.${since}</p>`}
      <${Said} />
      <${Problems} />
      ${
        live.value === null
          ? html`<h1>${screen?.title ?? 'bidweir'}</h1><p class="soft">Loading…</p>`
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
render(html`<${App} />`, /** @type {HTMLElement} */ (document.getElementById('app')))
