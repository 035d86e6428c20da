/** Password hashes by scrypt, off the event loop and two at a time. Excess log-ins wait or are refused. */
import { randomBytes, type ScryptOptions, scrypt, timingSafeEqual } from 'node:crypto'
import { BusyError } from '../http/problem.ts'

/** 32 MiB and about 80 ms of one thread. */
const cost: ScryptOptions = { N: 2 ** 15, r: 8, p: 1, maxmem: 64 * 1024 * 1024 }
/** Two of the four threads of libuv: DNS look-ups and file access need the others. */
const maxRunning = 2
const maxWaiting = 64

/** Characters of the shortest password. */
export const minPassword = 8
/** Characters. A longer password is refused before it is hashed. */
export const maxPassword = 1024

let running = 0
const waiting: (() => void)[] = []

async function derive(password: string, salt: Buffer): Promise<Buffer> {
  if (running >= maxRunning) {
    if (waiting.length >= maxWaiting) throw new BusyError('too many log-ins at once')
    await new Promise<void>((resolve) => waiting.push(resolve))
  } else running++
  try {
    return await new Promise((resolve, reject) => {
      scrypt(password, salt, 32, cost, (error, key) => (error ? reject(error) : resolve(key)))
    })
  } finally {
    // the next waiting call takes this slot
    const next = waiting.shift()
    if (next === undefined) running--
    else next()
  }
}

export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(16)
  const key = await derive(password.normalize('NFC'), salt)
  return `scrypt$15$8$1$${salt.toString('base64url')}$${key.toString('base64url')}`
}

const nobody = `scrypt$15$8$1$${randomBytes(16).toString('base64url')}$${randomBytes(32).toString('base64url')}`

/** If the user does not exist (`hash` undefined), the check takes as long as for a wrong password. */
export async function checkPassword(password: string, hash: string | undefined): Promise<boolean> {
  const [, , , , salt = '', key = ''] = (hash ?? nobody).split('$')
  const found = await derive(password.normalize('NFC'), Buffer.from(salt, 'base64url'))
  const kept = Buffer.from(key, 'base64url')
  return kept.length === found.length && timingSafeEqual(kept, found) && hash !== undefined
}
