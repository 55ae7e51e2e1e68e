import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import t from 'tap'

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
