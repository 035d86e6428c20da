/** `npm run demo -- --scenario NAME`, for each name alone: what the console reads names the fault of its supplier, and of no other. */
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import type { Funnel } from '../../../admin/fleet/funnel-route.ts'
import type { LiveListAnswer } from '../../../admin/fleet/live-schema.ts'
import { scenarios } from '../../../service/demo/scenarios.ts'
import { newFolder } from '../../support/process.ts'
import { startLimit, until } from '../../support/until.ts'

const main = fileURLToPath(new URL('../../../main.ts', import.meta.url))

/** The step at which the bids stop, and the reason that the board shows first. */
const faults: Readonly<Record<string, readonly [step: string, rule: string]>> = {
  'no-macro': ['macro', 'no_macro'],
  'no-notices': ['notices', 'no_notices'],
  'refused-notices': ['attributed', 'notices_refused'],
  'wrong-prices': ['plausible', 'price_too_low'],
}
t.same(Object.keys(faults), Object.keys(scenarios), 'each scenario')

for (const [scenario, [step, rule]] of Object.entries(faults))
  t.test(scenario, async (t) => {
    const addresses = ['--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0']
    const argv = [main, 'demo', '--scenario', scenario, ...addresses]
    const child = spawn(process.execPath, argv, { cwd: newFolder() })
    t.teardown(() => child.kill('SIGKILL'))
    let said = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk) => {
        said += chunk
      })
    const { name, text } = scenarios[scenario]!
    await until(() => said.includes(`Also ${name}, /bid/${scenario}: ${text}\n`))
    const admin = /^admin +(\S+)\/$/m.exec(said)![1]!
    const password = /^password +(\S+)$/m.exec(said)![1]!
    const granted = await fetch(`${admin}/auth/realms/main/protocol/openid-connect/token`, {
      method: 'POST',
      body: new URLSearchParams({
        ...{ client_id: 'public-client', grant_type: 'password' },
        ...{ username: 'admin', password },
      }),
    })
    const { access_token } = (await granted.json()) as { access_token: string }
    const read = async <Answer>(path: string) => {
      const headers = { authorization: `Bearer ${access_token}` }
      return (await (await fetch(`${admin}/api/svc/${path}`, { headers })).json()) as Answer
    }
    await until(async () => (await read<Funnel>('funnel/?only=faults')).suppliers.length > 0, {
      what: 'a fault',
      limit: startLimit,
    })
    const { suppliers } = await read<Funnel>('funnel/?only=faults')
    t.match(suppliers, [
      { ssp: scenario, name, faults: [{ step, mail: /^(Please|We|A part|The) / }] },
    ])
    t.equal(suppliers.length, 1, 'the demo supplier has none')
    t.equal(suppliers[0]!.faults.length, 1)
    const { integrations } = await read<LiveListAnswer>('live/list/')
    const { health } = integrations.find(({ ssp }) => ssp === scenario)!
    // the load of the machine is a reason of its own
    const reason = health.reasons.find((found) => found.rule === rule)
    t.match(reason, { level: 'warn', fix: /./ }, 'on the board')
    // figures go on between the two calls
    const words = (text = '') => text.replace(/[\d.,]+/g, '')
    t.equal(words(reason?.text), words(suppliers[0]!.faults[0]!.text), 'in the same words')
    child.kill('SIGINT')
    t.equal(await new Promise((resolve) => child.once('exit', resolve)), 0)
  })
