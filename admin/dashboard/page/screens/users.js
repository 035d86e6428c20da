/** The users of the embedded realm. */
import { ask } from '../actions.js'
import { time } from '../format.js'
import { html } from '../html.js'
import { Level, Loaded, Table, useRead } from '../parts.js'
import { call, settings } from '../session.js'
import { live, may, seesAll } from '../state.js'
import { minPassword, NewUser } from './new-user.js'

/** @typedef {{ name: string, roles: string[], account: string, state: 'enabled' | 'disabled', last_login: string | null }} User */

const tokenNote = 'Access tokens work until they expire, at most 5 minutes.'

/** The changes of one user. @param {{ user: User, again: () => Promise<void> }} props */
function Changes({ user: { name, state }, again }) {
  const on = state === 'enabled'
  const you = live.value?.caller.name === name ? ' This is you.' : ''
  const change = async (/** @type {string} */ verb, /** @type {object | undefined} */ body) => {
    await call(`/api/svc/users/${encodeURIComponent(name)}/${verb}/`, 'POST', body)
    await again()
  }
  const set = (/** @type {boolean} */ enabled) => change(enabled ? 'enable' : 'disable', undefined)
  const verb = on ? 'Disable' : 'Enable'
  const askSwitch = () =>
    ask({
      title: `${verb} user ${name}?`,
      text: on
        ? `${name} cannot log in any more, and the sessions of ${name} end. ${tokenNote}${you}`
        : `${name} can log in again, with the same password and roles.`,
      verb,
      danger: on,
      act: () => set(!on),
      undo: () => set(on),
      done: `${name} is ${on ? 'disabled' : 'enabled'}.`,
    })
  const askPassword = () =>
    ask({
      title: `Set the password of ${name}?`,
      text: `The old password ends, and so do the sessions of ${name}. ${tokenNote}${you}`,
      verb: 'Set password',
      input: {
        label: `New password, at least ${minPassword} characters`,
        type: 'password',
        minLength: minPassword,
      },
      act: (password) => change('passwd', { password }),
      done: `${name} has a new password.`,
    })
  const askRemove = () =>
    ask({
      title: `Remove user ${name}?`,
      text: `${name} and the sessions of ${name} are gone for good. To bar a user for a time, disable instead. ${tokenNote}${you}`,
      verb: 'Remove',
      danger: true,
      act: () => change('remove', undefined),
      done: `${name} is removed.`,
    })
  return html`<span class="row"><button type="button" aria-label=${`Set password of ${name}`} onClick=${askPassword}>Set password</button>
    <button type="button" aria-label=${`${verb} ${name}`} onClick=${askSwitch}>${verb}</button>
    <button type="button" aria-label=${`Remove ${name}`} onClick=${askRemove}>Remove</button></span>`
}

const accountsOf = () => [
  ...new Set((live.value?.integrations ?? []).flatMap(({ account }) => account ?? [])),
]

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
      cell: (/** @type {User} */ user) => html`<${Changes} user=${user} again=${users.again} />`,
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
              <${NewUser} accounts=${accountsOf()} again=${users.again} />`
          : html`<p class="box">Only operators of account * see the list of users.</p>`
    }`
}
