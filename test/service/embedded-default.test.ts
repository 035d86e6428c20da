/**
 * `start` without a file: the embedded default at its own ports, and the line to try it with (CONTRACT 1). The ports
 * are fixed, so this file runs once more inside a network of its own.
 */
import { execFile, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { namespaceAbsent, ownNetwork } from '../support/network.ts'
import { newFolder, runBidweir, token } from '../support/process.ts'

const shell = promisify(execFile)
const hasCurl = spawnSync('curl', ['--version']).status === 0
const skip = hasCurl ? namespaceAbsent : 'curl not found'
const inside = process.env['OWN_NETWORK'] === '1'

interface Bid {
  id: string
  price: number
  nurl: string
}

if (!inside)
  t.test('in a network of its own', { skip }, async (t) => {
    const env = { ...process.env, OWN_NETWORK: '1' }
    const argv = ownNetwork(process.execPath, fileURLToPath(import.meta.url))
    const { status, stdout, stderr } = spawnSync('unshare', argv, { env, encoding: 'utf8' })
    if (status !== 0) t.comment(`${stdout}${stderr}`)
    t.equal(status, 0)
  })

t.test(
  'what it prints can be pasted: a bid with a lowered price and a context',
  { skip: inside ? false : 'runs in a network of its own' },
  async (t) => {
    const folder = newFolder()
    const first = await runBidweir(['start'], folder)
    t.teardown(() => first.stop('SIGKILL'))
    t.match(
      first.stdout(),
      /^bid traffic +http:\/\/127\.0\.0\.1:8080\/bid\/demo \(POST, on every address/m,
    )
    t.match(first.stdout(), /^admin +http:\/\/127\.0\.0\.1:8081\/$/m)
    t.match(first.stdout(), /^user +admin$/m)
    const lines = first.stdout().split('\n')
    const line = lines.filter((line) => line.includes('curl'))
    t.equal(line.length, 1)
    t.match(line[0], /^curl /, 'on a line of its own')
    const pasted = async () => {
      const { stdout } = await shell('sh', ['-c', line[0]!])
      const { seatbid } = JSON.parse(stdout) as { seatbid: { bid: Bid[] }[] }
      const bid = seatbid[0]!.bid[0]!
      const query = new URL(bid.nurl).searchParams
      return { ...bid, in: Number(query.get('in')), context: query.get('svc_opd')! }
    }
    let won = await pasted()
    for (let n = 0; n < 5; n++, won = await pasted()) {
      t.ok(won.price < won.in, 'no holdout, and a cold model never answers factor 1')
      t.match(won.context, /^[\w-]{1,512}$/)
    }
    const report = async (svc_opd: string) => {
      const query = new URLSearchParams({ bid_id: won.id, price: String(won.price), svc_opd })
      const answer = await fetch(`http://127.0.0.1:8081/opd/imp?${query}`)
      return { http: answer.status, ...((await answer.json()) as { status?: string | number }) }
    }
    t.match(await report('forged'), { http: 401 }, 'a context is the credential')
    t.match(await report(won.context), { http: 200, status: 'attributed' })
    t.equal((await fetch('http://127.0.0.1:8081/healthz')).status, 200)
    t.equal((await fetch('http://127.0.0.1:8080/healthz')).status, 404, 'bid traffic only')
    t.ok(existsSync(join(folder, 'data')))
    const { password } = first
    t.equal(await first.stop('SIGINT'), 0, 'at once: no grace on SIGINT')

    const second = await runBidweir(['start'], folder)
    t.teardown(() => second.stop('SIGKILL'))
    t.equal(second.password, null, 'printed at the first start only')
    t.type(await token(second, 'admin', password!), 'string', 'and it goes on opening')
    t.match(await report(won.context), { status: 'duplicate' }, 'so do its keys and its ledger')
    t.equal(await second.stop(), 0)
  },
)
