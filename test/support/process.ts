/** bidweir as a process of its own, as its users run it. */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import './cheap-passwords.ts'
import { endWithTest } from './children.ts'

/** The flags of Node.js in each process of the service. */
const always = ['--import', import.meta.resolve('./cheap-passwords.ts')]
const main = fileURLToPath(new URL('../../main.ts', import.meta.url))

/** A service that runs, in whichever process. */
export interface Running {
  folder: string
  proxyPort: number
  adminPort: number
  /** null: notices have no listener of their own. */
  noticesPort: number | null
  agentPort?: number | null
  password: string | null
  stdout: () => string
  stderr: () => string
  /** The exit code, once it has exited. */
  exited: Promise<number | null>
  stop(signal?: NodeJS.Signals): Promise<number | null>
}

export interface Bidweir extends Running {
  child: ChildProcess
}

export const newFolder = () => mkdtempSync(join(tmpdir(), 'bidweir-'))

/** Runs one command to its end. */
export function command(
  argv: string[],
  options: { cwd?: string; stdin?: string; env?: NodeJS.ProcessEnv } = {},
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [...always, main, ...argv], {
      cwd: options.cwd ?? newFolder(),
      env: { ...process.env, ...options.env },
    })
    let [stdout, stderr] = ['', '']
    child.stdout.on('data', (chunk) => {
      stdout += chunk
    })
    child.stderr.on('data', (chunk) => {
      stderr += chunk
    })
    child.stdin.end(options.stdin ?? '')
    child.on('close', (code) => resolve({ code, stdout, stderr }))
  })
}

/** Starts the service with a configuration whose listeners are on port 0; resolves when it has greeted. */
export async function startBidweir(
  yaml: string,
  folder = newFolder(),
  flags: readonly string[] = [],
): Promise<Bidweir> {
  const file = join(folder, 'bidweir.yaml')
  writeFileSync(file, yaml)
  return runBidweir(['start', '--config', file], folder, flags)
}

/** Runs a command that starts the service, in `folder`; resolves when it has greeted. */
export async function runBidweir(
  words: readonly string[],
  folder: string,
  flags: readonly string[] = [],
): Promise<Bidweir> {
  const argv = [...always, ...flags, main, ...words]
  const child = endWithTest(spawn(process.execPath, argv, { cwd: folder }))
  let [stdout, stderr] = ['', '']
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve))
  child.stderr!.on('data', (chunk) => {
    stderr += chunk
  })
  await new Promise<void>((resolve, reject) => {
    child.stdout!.on('data', (chunk) => {
      stdout += chunk
      if (/^admin .*\n/m.test(stdout)) setImmediate(resolve)
    })
    void exited.then((code) => reject(new Error(`it exited with ${code}: ${stderr}${stdout}`)))
  })
  const port = (name: string) => new RegExp(`^${name} .*?:(\\d+)/`, 'm').exec(stdout)?.[1]
  const notices = port('win notices')
  return {
    child,
    folder,
    proxyPort: Number(port('bid traffic')),
    adminPort: Number(port('admin')),
    noticesPort: notices === undefined ? null : Number(notices),
    agentPort: Number(/^agent +grpc:\/\/\S*:(\d+)$/m.exec(stdout)?.[1] ?? 0) || null,
    password: /^password +(\S+)/m.exec(stdout)?.[1] ?? null,
    stdout: () => stdout,
    stderr: () => stderr,
    exited,
    stop(signal = 'SIGINT') {
      child.kill(signal)
      return exited
    },
  }
}

export async function token(
  bidweir: Pick<Running, 'adminPort' | 'password'>,
  username = 'admin',
  password = bidweir.password!,
): Promise<string> {
  const answer = await fetch(
    `http://127.0.0.1:${bidweir.adminPort}/auth/realms/main/protocol/openid-connect/token`,
    {
      method: 'POST',
      body: new URLSearchParams({
        client_id: 'public-client',
        grant_type: 'password',
        username,
        password,
      }),
    },
  )
  const { access_token } = (await answer.json()) as { access_token: string }
  return access_token
}
