/** The commands of docs/management-api.md, run as its readers paste them. */
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import type { Test } from 'tap'

const text = readFileSync(new URL('../../docs/management-api.md', import.meta.url), 'utf8')

/** The first block of shell under a heading. */
function commandsUnder(heading: string): string {
  const section = text.slice(text.indexOf(`\n## ${heading}\n`))
  const block = /\n```sh\n([\s\S]*?)\n```\n/.exec(section)?.[1]
  if (block === undefined) throw new Error(`no commands under ${heading}`)
  return block
}

/** Runs a block in bash; its lines of output, without the carriage returns of HTTP. */
function run(commands: string, env: Record<string, string>): Promise<string[]> {
  return new Promise((resolve, reject) => {
    const path = process.env['PATH'] ?? ''
    const child = spawn('bash', ['-u'], { env: { PATH: path, ...env }, stdio: 'pipe' })
    let out = ''
    let err = ''
    child.stdout.on('data', (chunk) => {
      out += chunk
    })
    child.stderr.on('data', (chunk) => {
      err += chunk
    })
    child.on('error', reject)
    child.on('close', (code) => {
      if (code === 0) resolve(out.replaceAll('\r', '').split('\n').slice(0, -1))
      else reject(new Error(`bash ended with ${code}: ${err}${out}`))
    })
    child.stdin.end(`${commands}\n`)
  })
}

interface ApiAccess {
  api: string
  bids: string
  auth: string
  login: string
  password: string
}

interface Supplier {
  id: string
  dsp_seats: { name: string; is_active: boolean }[]
  datacenters: { location: string; client_qps: number | null }[]
}

/** Token, list, create, switch, lower: every response, and the bid after each change. */
export async function walkThrough(t: Test, { api, bids, auth, login, password }: ApiAccess) {
  const env = { API: api, BIDS: bids, AUTH: auth, LOGIN: login, PASSWORD: password }
  const lines = await run(commandsUnder('Walk through'), env)
  const answers = lines
    .filter((line) => /^[[{]/.test(line))
    .map((line) => JSON.parse(line) as unknown) as [Supplier[], ...Supplier[]]
  const [list, ...changed] = answers
  t.match(list, [{ id: 'demo', dsp_seats: [], datacenters: [] }])
  t.same(
    changed.map(({ dsp_seats, datacenters }) => [
      dsp_seats?.[0]?.name,
      dsp_seats?.[0]?.is_active,
      datacenters?.[0]?.client_qps,
    ]),
    [
      ['seat-boreal', true, 50],
      ['seat-boreal', false, 50],
      ['seat-boreal', true, 50],
      ['seat-boreal', true, 1],
      ['seat-boreal', true, null],
    ],
  )
  const traffic = lines
    .filter((line) => /^(HTTP|x-bidweir)/i.test(line))
    .map((line) => /^HTTP\S* (\d+)/.exec(line)?.[1] ?? line.split(': ')[1])
  const statuses = ['200', '204', 'inactive', '200', '200', '204', 'qps', '204', 'qps']
  t.same(traffic, statuses, 'bids pass, miss the seat, pass again, and meet the allotment')
}

interface Configured {
  timeout?: string
  version?: number
  dryRun?: boolean
}

/** Adds a supplier, changes it, reads its history, reverts and deletes it, with the token of the walk through. */
export async function walkThroughSuppliers({ api, password }: Pick<ApiAccess, 'api' | 'password'>) {
  const [prelude] = commandsUnder('Walk through').split('\nbid()') as [string]
  const env = { API: api, PASSWORD: password }
  const lines = await run(`${prelude}\n${commandsUnder('Configure suppliers')}`, env)
  return lines
    .filter((line) => /^[[{]/.test(line))
    .map((line) => JSON.parse(line) as Configured | Configured[])
}
