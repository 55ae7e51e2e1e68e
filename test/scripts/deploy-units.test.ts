import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { NODE_FLAGS } from '../../scripts/compile.mjs'
import { ENVIRONMENT_SCHEMA } from '../../src/gateway/node/config.ts'
import { tempFolder } from '../support/scratch.ts'
import { stopSeconds } from './stop-seconds.ts'

const UNIT = new URL('../../scripts/deploy/larkway.service', import.meta.url)
/** What `systemd-analyze security` says of a service that gives up all that it can; 10 is one that gives up nothing. */
const EXPOSURE_MAX = 2

const run = promisify(execFile)
const unit = await readFile(UNIT, 'utf8')
const values = (name: string) =>
  [...unit.matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map(([, value]) => value)
const withoutSystemd = await run('systemd-analyze', ['--version']).then(
  () => false as const,
  () => 'there is no systemd-analyze here',
)

t.test('the unit tells the gateway what it knows, and waits until it has stopped', async (t) => {
  const environment = values('Environment').map((value = '') => value.split('='))
  for (const [name = ''] of environment)
    t.ok(name.startsWith('NODE_') || Object.hasOwn(ENVIRONMENT_SCHEMA.properties, name), name)
  const folder = environment.find(([name]) => name === 'LARKWAY_DATA')?.[1]
  t.same(
    values('StateDirectory'),
    [folder?.replace('/var/lib/', '')],
    'the data folder is the one it may write to',
  )
  t.same(values('ExecStart'), [`/usr/bin/node ${NODE_FLAGS.join(' ')} compiled/cli.js serve`])
  const processes = await readFile(new URL('../../src/cli/processes.ts', import.meta.url), 'utf8')
  t.match(processes, `NODE_FLAGS = ['${NODE_FLAGS.join("', '")}']`, 'servers on one port have the same flags')
  t.ok(Number(values('TimeoutStopSec')) > stopSeconds(), 'as long as a node may take to stop')
  t.same(values('KillSignal'), [], 'SIGTERM')
  t.ok(Number(values('LimitNOFILE')) >= 65_536)
})

t.test(
  'systemd takes the unit, and finds little to reproach it with',
  { skip: withoutSystemd },
  async (t) => {
    const path = join(await tempFolder(t), 'larkway.service')
    await writeFile(path, unit.replace('/usr/bin/node', process.execPath))
    const { stderr } = await run('systemd-analyze', ['verify', '--man=no', '--recursive-errors=no', path])
    t.equal(stderr, '', 'nothing is unknown or misplaced')
    const broken = path.replace('larkway.', 'broken.')
    await writeFile(broken, unit.replace('Restart=always', 'Restart=evermore'))
    const complaint = await run('systemd-analyze', [
      'verify',
      '--man=no',
      '--recursive-errors=no',
      broken,
    ]).then(
      ({ stderr }) => stderr,
      ({ stderr }: { stderr: string }) => stderr,
    )
    t.match(complaint, 'evermore', 'it would say so')
    const { stdout } = await run('systemd-analyze', ['security', '--offline=true', path])
    const exposure = Number(/Overall exposure level for .*: ([\d.]+)/.exec(stdout)?.[1])
    t.ok(exposure <= EXPOSURE_MAX, `exposed by ${exposure} of 10`)
  },
)
