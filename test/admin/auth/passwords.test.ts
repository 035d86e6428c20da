/** Passwords are hashed by scrypt with the cost that the hash names; each hash has a salt of its own. */
import { scryptSync } from 'node:crypto'
import t from 'tap'
import { checkPassword, hashPassword } from '../../../admin/auth/passwords.ts'

t.test('a hash is scrypt of 32 MiB, and checked at the same cost', async (t) => {
  const hash = await hashPassword('pass e\u0301')
  const [name, n, r, p, salt, key] = hash.split('$')
  t.same([name, n, r, p], ['scrypt', '15', '8', '1'])
  const cost = { N: 2 ** 15, r: 8, p: 1, maxmem: 2 ** 26 }
  const derived = scryptSync('pass \u00e9', Buffer.from(salt!, 'base64url'), 32, cost)
  t.equal(key, derived.toString('base64url'))
  t.equal(await checkPassword('pass \u00e9', hash), true)
  t.equal(await checkPassword('pass e', hash), false)
  t.not(await hashPassword('pass e\u0301'), hash)
})
