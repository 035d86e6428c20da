// Plain JavaScript, so that an old Node can still say why it will not run the rest.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'

const major = Number(process.versions.node.split('.')[0])

if (process.argv[2] === 'prepare') {
  // Without `tap build` the first test run of a fresh clone fails; with --omit=dev there is no tap.
  const tap = new URL('./node_modules/.bin/tap', import.meta.url)
  if (existsSync(tap)) {
    console.log(
      'The test runner is prepared (tap build): about 10 seconds, a minute on a busy machine.',
    )
    const { status } = spawnSync(process.execPath, [tap.pathname, 'build'], { stdio: 'ignore' })
    process.exitCode = status ?? 1
  }
} else if (major < 24) {
  console.error(
    `bidweir needs Node.js 24 or later to run and found ${process.versions.node}: use the npm scripts after \`npm ci\`, which bring their own.`,
  )
  process.exitCode = 1
}
