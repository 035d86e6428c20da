/**
 * Loaded by tests and before the service of a test: the hash of a password takes a thousandth of its CPU. The real cost
 * is tested by test/admin/auth/passwords.test.ts.
 */
import crypto, { type ScryptOptions } from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'

const { scrypt } = crypto
type Derived = Parameters<typeof scrypt>[4]
const cheap = (password: string, salt: Buffer, size: number, cost: ScryptOptions, done: Derived) =>
  scrypt(password, salt, size, { ...cost, N: 16 }, done)
Object.assign(crypto, { scrypt: cheap })
syncBuiltinESMExports()
