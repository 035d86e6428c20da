/** The users of the embedded realm. */
import { ask } from '../actions.js'
import { time } from '../format.js'
import { html } from '../html.js'
import { Level, Loaded, Table, useRead } from '../parts.js'
import { call, settings } from '../session.js'
import { live, may, seesAll } from '../state.js'

/** @typedef {{ name: string, roles: string[], account: string, state: 'enabled' | 'disabled', last_login: string | null }} User */

/** @param {{ user: User, again: () => Promise<void> }} props */
function Switch({ user: { name, state }, again }) {
  const on = state === 'enabled'
  const set = async (/** @type {boolean} */ enabled) => {
    await call(
      `/api/svc/users/${encodeURIComponent(name)}/${enabled ? 'enable' : 'disable'}/`,
      'POST',
    )
    await again()
  }
  const verb = on ? 'Disable' : 'Enable'
  const self = live.value?.caller.name === name
  const change = () =>
    ask({
      title: `${verb} user ${name}?`,
      text: on
        ? `${name} cannot log in any more, and the sessions of ${name} end. Access tokens work until they expire, at most 5 minutes.${self ? ' This is you.' : ''}`
        : `${name} can log in again, with the same password and roles.`,
      verb,
      danger: on,
      act: () => set(!on),
      undo: () => set(on),
      done: `${name} is ${on ? 'disabled' : 'enabled'}.`,
    })
  return html`<button type="button" aria-label=${`${verb} ${name}`} onClick=${change}>${verb}</button>`
}

export function Users() {
  const admin = may('operator') && seesAll.value && settings.realm !== null
  const users = useRead(async () => (admin ? call('/api/svc/users/') : []), [admin])
  const columns = [
    { name: 'User', text: true, cell: (/** @type {User} */ { name }) => name },
    {
      name: 'Roles',
      text: true,
      cell: (/** @type {User} */ { roles }) => roles.join(', ') || 'none: cannot read anything',
    },
    {
      name: 'Account',
      text: true,
      cell: (/** @type {User} */ { account }) =>
        account === '*' ? '* (all suppliers)' : account || 'none',
    },
    {
      name: 'State',
      text: true,
      help: 'A disabled user cannot log in.',
      cell: (/** @type {User} */ { state }) =>
        html`<${Level} level=${state === 'enabled' ? 'ok' : 'none'} label=${state} />`,
    },
    {
      name: 'Last log-in',
      text: true,
      cell: (/** @type {User} */ { last_login }) =>
        last_login === null ? 'never' : time(last_login),
    },
    {
      name: 'Change',
      text: true,
      cell: (/** @type {User} */ user) => html`<${Switch} user=${user} again=${users.again} />`,
    },
  ]
  const caller = live.value?.caller
  return html`<h1>Users</h1>
    <p>You are ${caller?.name}, with the role ${caller?.role}, and see ${caller?.account === '*' ? 'all suppliers' : `the suppliers of account ${caller?.account}`}.
      Role viewer reads, api also edits seats and data centers, operator also holds, voids and steers the models.</p>
    ${
      settings.realm === null
        ? html`<p class="box">Users are those of the issuer ${settings.external?.issuer}.</p>`
        : admin
          ? html`<${Loaded} of=${users}>${(
              /** @type {User[]} */ all,
            ) => html`<${Table} label="Users" rows=${all}
              keyOf=${(/** @type {User} */ { name }) => name} columns=${columns} />`}<//>
              <p class="soft">Add users, change passwords and remove users on the command line: <code>bidweir user</code>.</p>`
          : html`<p class="box">Only operators of account * see the list of users.</p>`
    }`
}
