/** The users of the embedded realm. */
import { ask } from '../actions.js'
import { changeIfSame } from '../changes.js'
import { Level, loaded, table, text, useRead } from '../components.js'
import { time } from '../format.js'
import { withFields } from '../forms.js'
import { html } from '../html.js'
import { call, settings } from '../session.js'
import { live, may, seesAll } from '../state.js'

/** @import { ShownUser as User } from '../../../console/users.ts' */

const tokenNote = 'Access tokens work until they expire, at most 5 minutes.'
const minPassword = 8

/** @param {string} name @param {'enable' | 'disable' | 'passwd' | 'remove'} verb @param {object} [body] */
const change = (name, verb, body) =>
  call(`/api/svc/users/${encodeURIComponent(name)}/${verb}/`, 'POST', body)

/** The changes of one user. @param {{ user: User, again: () => Promise<void> }} props */
function Changes({ user: { name, state }, again }) {
  const on = state === 'enabled'
  const you = live.value?.caller.name === name ? ' This is you.' : ''
  const set = (/** @type {boolean} */ enabled) =>
    changeIfSame({
      from: !enabled,
      trail: '',
      made: ({ action, after }) =>
        (action === 'user_enable' || action === 'user_disable') &&
        /** @type {User | null} */ (after)?.name === name,
      inWords: (value) => (value ? 'enabled' : 'disabled, or removed'),
      async read() {
        const users = /** @type {User[]} */ (await call('/api/svc/users/'))
        const user = users.find((known) => known.name === name)
        return { value: user?.state === 'enabled', version: null }
      },
      write: () => change(name, enabled ? 'enable' : 'disable'),
    }).finally(again)
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
      act: (password) => change(name, 'passwd', { password }).then(again),
      done: `${name} has a new password.`,
    })
  const askRemove = () =>
    ask({
      title: `Remove user ${name}?`,
      text: `${name} and the sessions of ${name} are gone for good. To bar a user for a time, disable instead. ${tokenNote}${you}`,
      verb: 'Remove',
      danger: true,
      act: () => change(name, 'remove').then(again),
      done: `${name} is removed.`,
    })
  return html`<span class="row"><button type="button" aria-label=${`Set password of ${name}`} onClick=${askPassword}>Set password</button>
    <button type="button" aria-label=${`${verb} ${name}`} onClick=${askSwitch}>${verb}</button>
    <button type="button" aria-label=${`Remove ${name}`} onClick=${askRemove}>Remove</button></span>`
}

const roles = {
  viewer: 'reads figures',
  api: 'also edits seats and data centers',
  operator: 'also holds prices, voids wins, changes models and users',
}

/** @param {{ again: () => Promise<void> }} props */
function NewUser({ again }) {
  const accounts = live.value?.integrations.flatMap(({ account }) => account ?? [])
  const submit = withFields((field, form) => {
    const [name, account] = [field('name').trim(), field('account').trim()]
    const role = /** @type {keyof typeof roles} */ (field('role'))
    const sees = account === '*' ? 'all suppliers' : `the suppliers of account ${account}`
    ask({
      title: `Add user ${name}?`,
      text: `${name} can log in at once with the password that you set, sees ${sees}, and has the role ${role}: ${roles[role]}.`,
      verb: 'Add user',
      danger: role === 'operator' && account === '*',
      act: async () => {
        const user = { name, password: field('password'), roles: [role], account }
        await call('/api/svc/users/', 'POST', user)
        form.reset()
        await again()
      },
      undo: () => change(name, 'remove').then(again),
      done: `${name} is added.`,
    })
  })
  return html`<details class="sheet"><summary>Add a user</summary>
    <form class="fields" onSubmit=${submit} autocomplete="off">
      <label>Name <input name="name" required maxlength="128" pattern="\\S+" title="no white space" autocomplete="off" /></label>
      <label>Password, at least ${minPassword} characters <input name="password" type="password" required minlength=${minPassword} autocomplete="new-password" /></label>
      <label>Role <select name="role">${Object.entries(roles).map(
        ([role, does]) => html`<option key=${role} value=${role}>${role}: ${does}</option>`,
      )}</select></label>
      <label>Account, or * for all suppliers <input name="account" required maxlength="128" pattern="\\S+" title="no white space" list="accounts" autocomplete="off" />
        <datalist id="accounts">${[...new Set(['*', ...(accounts ?? [])])].map((name) => html`<option key=${name} value=${name}></option>`)}</datalist></label>
      <div class="row"><button type="submit" class="primary">Add user</button></div>
    </form></details>`
}

export function Users() {
  const admin = may('operator') && seesAll.value && settings.realm !== null
  const users = useRead(
    async () => /** @type {User[]} */ (admin ? await call('/api/svc/users/') : []),
    [admin],
  )
  /** @type {import('../components.js').Column<User>[]} */
  const columns = [
    text('User', ({ name }) => name),
    text('Roles', ({ roles }) => roles.join(', ') || 'none: cannot read anything'),
    text('Account', ({ account }) => (account === '*' ? '* (all suppliers)' : account || 'none')),
    text(
      'State',
      ({ state }) => html`<${Level} level=${state === 'enabled' ? 'ok' : 'none'} label=${state} />`,
      { help: 'A disabled user cannot log in.' },
    ),
    text('Last log-in', ({ last_login }) => (last_login === null ? 'never' : time(last_login))),
    text('Change', (user) => html`<${Changes} user=${user} again=${users.again} />`),
  ]
  const caller = live.value?.caller
  return html`<h1>Users</h1>
    <p>You are ${caller?.name}, with the role ${caller?.role}, and see ${caller?.account === '*' ? 'all suppliers' : `the suppliers of account ${caller?.account}`}.
      Role viewer reads, api also edits seats and data centers, operator also holds prices, voids wins, and changes models and users.</p>
    ${
      settings.realm === null
        ? html`<p class="box">Users are those of the issuer ${settings.external?.issuer}.</p>`
        : !admin
          ? html`<p class="box">Only operators of account * see the list of users.</p>`
          : html`${loaded(users, (rows) => table({ label: 'Users', rows, columns, keyOf: ({ name }) => name }))}
              <${NewUser} again=${users.again} />`
    }`
}
