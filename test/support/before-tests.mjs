/** Loaded before each test file: it takes away what the runner adds and no test needs, and what a test leaves. */
import hooks from 'node:async_hooks'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isMainThread } from 'node:worker_threads'

// The runner follows each promise and each handle with an async hook, to say in which test an error escaped: an eighth
// of the CPU of a test with many requests. Without it such an error ends the file, which fails.
const { createHook } = hooks
const idle = { enable: () => idle, disable: () => idle }
hooks.createHook = (callbacks) => {
  const isOfRunner = new Error().stack?.includes('/async-hook-domain/')
  return isOfRunner ? idle : createHook(callbacks)
}
syncBuiltinESMExports()

// The runner gives its loader to each child process: it slows the start by 0.05 s, and ends the process at signals that
// Node ignores. It wraps the functions that spawn (package process-on-spawn) if no other module has wrapped them.
const wrapped = Symbol.for('process-on-spawn@*:singletonId')
globalThis[wrapped]?.unwrap()
globalThis[wrapped] = { version: 1, listeners: [], unwrap() {} }
delete process.env.NODE_OPTIONS

// The temporary files of a test and its child processes are in a folder of its own, which goes with it. The name is
// short, because the path of a Unix socket has 107 bytes; other users enter and write, as PostgreSQL runs as one.
if (isMainThread) {
  const shared = tmpdir()
  const folder = mkdtempSync(join(shared, 'bw-'))
  chmodSync(folder, 0o1777)
  Object.assign(process.env, { SHARED_TMPDIR: shared, TMPDIR: folder })
  process.once('exit', () => {
    try {
      rmSync(folder, { recursive: true, maxRetries: 3 })
    } catch {
      // A child process that is just ending still writes there.
    }
  })
}
