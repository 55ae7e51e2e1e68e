import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { promisify } from 'node:util'
import t from 'tap'
import { cpuSeconds, peakRssMib } from '../../bench/harness/accounting.ts'
import { busyShare } from '../../bench/harness/machine.ts'

const CORES = `
import { readFileSync } from 'node:fs'
const cores = () => /^Cpus_allowed_list:\\s*(.+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))[1]
const before = cores()
const { machine } = await import('./bench/harness/machine.ts')
console.log(JSON.stringify({ before, after: cores(), machine: machine('both') }))
`

t.test(
  'who asks what the machine is keeps its cores',
  { skip: !existsSync('/proc/self/status') },
  async (t) => {
    const output = execFileSync(process.execPath, ['--no-warnings', '--input-type=module', '-e', CORES], {
      encoding: 'utf8',
      cwd: new URL('../..', import.meta.url),
    })
    const { before, after, machine } = JSON.parse(output)
    t.equal(after, before)
    t.match(machine, { node: process.version, placement: 'both' })
  },
)

t.test('figures of a busy machine can be told from those of an idle one', async (t) => {
  const stat = (user: number, idle: number, waiting: number) =>
    `cpu  ${user} 0 5 ${idle} ${waiting} 0 0 0 0 0\ncpu0 1\n`
  t.equal(busyShare(stat(100, 1_000, 10), stat(100, 1_500, 110)), 0)
  t.equal(busyShare(stat(100, 1_000, 10), stat(400, 1_290, 20)), 0.5)
})

const BUSY = 'const since = process.cpuUsage(); while (process.cpuUsage(since).user < 300_000);'

t.test(
  'CPU of a process that has ended counts with the one that started it',
  { skip: !existsSync('/proc/self/stat') },
  async (t) => {
    const before = cpuSeconds(process.pid)
    await promisify(execFile)(process.execPath, ['-e', BUSY])
    t.ok(cpuSeconds(process.pid) - before >= 0.29)
  },
)

t.test(
  'memory of the usage engine is not that of the node that has started it',
  { skip: !existsSync('/proc/self/status') },
  async (t) => {
    const grownBy = async (program: string) => {
      const before = peakRssMib(process.pid)
      const child = spawn(process.execPath, ['-e', 'console.log(1); setInterval(() => {}, 1e6)', program])
      await once(child.stdout, 'data')
      const after = peakRssMib(process.pid)
      child.kill('SIGKILL')
      await once(child, 'exit')
      return after - before
    }
    const engine = 'src/usage/engine-child.ts'
    t.ok(existsSync(new URL(`../../${engine}`, import.meta.url)), 'this is its program')
    // A process of Node.js holds some 40 MiB.
    t.ok((await grownBy(engine)) < 20)
    t.ok((await grownBy('program/usage-engine-child.js')) < 20, 'compiled')
    t.ok((await grownBy('src/main.ts')) > 20)
  },
)
