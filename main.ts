/** bidweir: runs the command that the arguments name. */
import { accessSync, constants, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { enableCompileCache, flushCompileCache } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process, { argv, exit } from 'node:process'
import { fileURLToPath } from 'node:url'

const ownCache = fileURLToPath(new URL('.cache', import.meta.url))

/**
 * A folder in which the cache of another user has the name of this one's: Node.js reads only caches with the id of the user
 * in their name, and that of the image is read-only. null: this user has a cache, can write one, or there is none.
 */
function linkOtherCache(): string | null {
  const uid = process.getuid?.()
  try {
    const [name, ...more] = readdirSync(ownCache)
    if (name === undefined || more.length > 0 || name.endsWith(`-${uid}`)) return null
    accessSync(ownCache, constants.W_OK)
    return null
  } catch (error) {
    if ((error as NodeJS.ErrnoException).syscall !== 'access') return null
  }
  try {
    const [name = ''] = readdirSync(ownCache)
    const folder = mkdtempSync(join(tmpdir(), 'bidweir-cache-'))
    symlinkSync(join(ownCache, name), join(folder, name.replace(/\d+$/, String(uid))))
    return folder
  } catch {
    return null
  }
}

// Without the cache a fifth of a start's CPU is spent on compiling unchanged code. If its folder cannot be written, nothing
// is cached.
const linked = linkOtherCache()
enableCompileCache(linked ?? ownCache)
// Threads take it from the environment alone. A link is removed before they start.
if (linked === null) process.env['NODE_COMPILE_CACHE'] ??= ownCache
// Node ends at SIGHUP without a handler; the one that reloads exists neither during the start nor during the drain.
if (argv[2] === 'start' && argv.some((word) => /^--config(=|$)/.test(word)))
  process.on('SIGHUP', () => {})
/** A disk may be full, and a reader such as `head` may leave early, which is no fault. */
const unwritten: Error[] = []
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') unwritten.push(error)
})
const { runCommand } = await import('./service/cli/index.ts')

const code = await runCommand(argv.slice(2))
if (linked !== null) rmSync(linked, { recursive: true, force: true })
if (code !== null) {
  await new Promise((written) => process.stdout.write('', written))
  for (const { message } of unwritten)
    process.stderr.write(`bidweir: stdout cannot be written: ${message}\n`)
  exit(unwritten.length === 0 ? code : 1)
}
// The service runs on. The cache is written now because a process that is killed writes none.
flushCompileCache()
