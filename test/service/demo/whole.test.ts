/** `npm run demo` as a whole: within a minute margin, win rate and uplift move. */
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { newFolder } from '../../support/process.ts'
import { until } from '../../support/until.ts'

const main = fileURLToPath(new URL('../../../main.ts', import.meta.url))

interface Figures {
  margin: number
  wins: number
  kept: { at: number; lower: number; upper: number } | null
  uplift: { at: number } | null
}

interface Report {
  decided: number
  wins: number
  margin: string
}

t.test('margin, win rate and uplift move, then it ends cleanly', async (t) => {
  const argv = [main, 'demo', '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0']
  const child = spawn(process.execPath, argv, { cwd: newFolder() })
  t.teardown(() => child.kill('SIGKILL'))
  let said = ''
  child.stderr.on('data', (chunk) => {
    said += chunk
  })
  await new Promise<void>((resolve) => {
    child.stdout.on('data', (chunk) => {
      said += chunk
      if (said.includes('The console shows them')) resolve()
    })
  })
  const admin = /^admin +(\S+)\/$/m.exec(said)![1]!
  const password = /^password +(\S+)$/m.exec(said)![1]!
  const granted = await fetch(`${admin}/auth/realms/main/protocol/openid-connect/token`, {
    method: 'POST',
    body: new URLSearchParams({
      client_id: 'public-client',
      grant_type: 'password',
      username: 'admin',
      password,
    }),
  })
  const { access_token } = (await granted.json()) as { access_token: string }
  const figures = async (): Promise<Figures | undefined> => {
    const headers = { authorization: `Bearer ${access_token}` }
    const live = await (await fetch(`${admin}/api/svc/live/`, { headers })).json()
    return (live as { integrations: { modes: Figures[] }[] }).integrations[0]?.modes[0]
  }
  const seen = async (good: (figures: Figures) => boolean): Promise<Figures> => {
    let now: Figures | undefined
    await until(async () => {
      now = await figures()
      return now !== undefined && good(now)
    })
    return now!
  }
  const first = await seen(
    ({ margin, kept, uplift }) => margin > 0 && kept !== null && uplift !== null,
  )
  // On a busy machine kept wins and uplift follow the wins later.
  const later = await seen(
    ({ wins, margin, kept, uplift }) =>
      wins > first.wins + 200 &&
      margin > first.margin &&
      kept?.at !== first.kept!.at &&
      uplift?.at !== first.uplift!.at,
  )
  t.ok(later.uplift!.at > 0, 'what is optimised earns more than the holdout')
  for (const term of ['today', 'kept wins', 'kept spend', 'uplift', 'in truth'])
    t.match(said, new RegExp(`^ +${term}  `, 'm'), `${term} is explained`)
  t.match(said, `${admin}/#/supplier/demo`)
  const report = async () => {
    const midnight = new Date().setHours(0, 0, 0, 0)
    const headers = { authorization: `Bearer ${access_token}` }
    const path = `/api/svc/reports/margin?ssp=demo&from=${midnight}`
    const [row] = (await (await fetch(`${admin}${path}`, { headers })).json()) as Report[]
    return row!
  }
  const printed = () => [...said.matchAll(/today (\d+) bids, (\d+) wins, margin USD (\S+) /g)]
  const before = await report()
  const count = printed().length
  await until(() => printed().length > count + 1)
  const [, decided, wins, margin] = printed().at(-1)!.map(Number)
  const after = await report()
  t.ok(decided! >= before.decided && decided! <= after.decided, 'the bids of the console')
  t.ok(wins! >= before.wins && wins! <= after.wins, 'its wins')
  const rounding = 0.0051
  t.ok(margin! >= Number(before.margin) - rounding && margin! <= Number(after.margin) + rounding)
  child.kill('SIGINT')
  t.equal(await new Promise((resolve) => child.once('exit', resolve)), 0)
})
