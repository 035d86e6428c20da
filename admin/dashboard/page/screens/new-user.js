/** Adds a user to the embedded realm. */
import { ask } from '../actions.js'
import { html } from '../html.js'
import { call } from '../session.js'

const may = {
  viewer: 'reads figures',
  api: 'also edits seats and data centers',
  operator: 'also holds, voids and steers the models',
}

export const minPassword = 8

/** @param {{ accounts: string[], again: () => Promise<void> }} props */
export function NewUser({ accounts, again }) {
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault()
    const form = /** @type {HTMLFormElement} */ (event.target)
    const fields = new FormData(form)
    const text = (/** @type {string} */ field) => String(fields.get(field) ?? '')
    const name = text('name').trim()
    const account = text('account').trim()
    const role = /** @type {keyof typeof may} */ (text('role'))
    const sees =
      account === ''
        ? 'no supplier, until it has an account'
        : account === '*'
          ? 'all suppliers'
          : `the suppliers of account ${account}`
    ask({
      title: `Add user ${name}?`,
      text: `${name} can log in at once with the password that you set, sees ${sees}, and has the role ${role}: ${may[role]}.`,
      verb: 'Add user',
      danger: role === 'operator' && account === '*',
      act: async () => {
        const user = { name, password: text('password'), roles: [role], account }
        await call('/api/svc/users/', 'POST', user)
        form.reset()
        await again()
      },
      undo: async () => {
        await call(`/api/svc/users/${encodeURIComponent(name)}/remove/`, 'POST')
        await again()
      },
      done: `${name} is added.`,
    })
  }
  return html`<details class="sheet"><summary>Add a user</summary>
    <form class="fields" onSubmit=${submit} autocomplete="off">
      <label>Name <input name="name" required maxlength="128" pattern="\\S+" title="no white space" autocomplete="off" /></label>
      <label>Password, at least ${minPassword} characters <input name="password" type="password" required minlength=${minPassword} autocomplete="new-password" /></label>
      <label>Role <select name="role">${Object.entries(may).map(
        ([role, does]) => html`<option key=${role} value=${role}>${role}: ${does}</option>`,
      )}</select></label>
      <label>Account, or * for all suppliers <input name="account" required maxlength="128" pattern="\\S+" title="no white space" list="accounts" autocomplete="off" />
        <datalist id="accounts">${['*', ...accounts].map((name) => html`<option key=${name} value=${name}></option>`)}</datalist></label>
      <div class="row"><button type="submit" class="primary">Add user</button></div>
    </form></details>`
}
