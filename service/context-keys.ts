/** Keys of contexts: `bidweir key new`, and the key of a service whose configuration has none. */
import { randomBytes, randomUUID } from 'node:crypto'
import {
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import * as z from 'zod'
import { keySchema } from './config/schema.ts'

export function newKey(): string {
  return randomBytes(32).toString('base64url')
}

/**
 * The file of the generated context keys.
 *
 * @param stateDir an absolute path, or one relative to the working directory; the result is of the same kind
 */
export const keysFile = (stateDir: string) => join(stateDir, 'keys.json')

function readKeys(file: string): { id: number; secret: string }[] {
  try {
    return z
      .array(keySchema)
      .min(1)
      .parse(JSON.parse(readFileSync(file, 'utf8')))
  } catch (error) {
    throw new Error(`${file} has no context keys`, { cause: error })
  }
}

/**
 * The keys of a state folder. The first call creates one.
 *
 * @param stateDir path of the folder; it is made if it does not exist
 * @returns secrets in base64url; the first one signs
 * @throws if the file has no keys: a new one would make the contexts of all open bids invalid
 */
export function loadOrCreateKeys(stateDir: string): { id: number; secret: string }[] {
  const file = keysFile(stateDir)
  if (existsSync(file)) return readKeys(file)
  const keys = [{ id: 1, secret: newKey() }]
  mkdirSync(dirname(file), { recursive: true })
  const fresh = `${file}.${randomUUID()}.new`
  writeFileSync(fresh, `${JSON.stringify(keys)}\n`, { mode: 0o600, flush: true })
  try {
    linkSync(fresh, file)
    rmSync(fresh)
  } catch (error) {
    // Another command has made them meanwhile. A file system without links cannot tell.
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') rmSync(fresh)
    else renameSync(fresh, file)
  }
  return readKeys(file)
}
