import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { copySwitched, withSwitch } from '../../bench/switched.ts'

t.test('what asks whether the ledger is on', async (t) => {
  const source = `
  over(exchange: EndedExchange, call: OpenCall): void {
    this.#record(exchange, call)
  }

  charged(call: OpenCall, isSettling: boolean): void {
  }

  ran(job: RecordedJob, call: EndedCall, run: EndedRun): void {
  }
`
  const text = withSwitch(source)
  t.equal(text.match(/^ {4}if \(!isTold\) return$/gm)?.length, 2)
  t.match(text, /over\(.*\n {4}if \(!isTold\) return\n {4}this\.#record/)
  t.throws(() => withSwitch('class Other {}\n'), { message: /told in 0 places/ })
})

t.test('the copy of the tree', async (t) => {
  const tree = copySwitched()
  const folder = join(tree, 'src')
  const switched = globSync('**/*.ts', { cwd: folder }).filter((path) =>
    readFileSync(join(folder, path), 'utf8').includes('SIGUSR2'),
  )
  t.same(switched, ['usage/ledger.ts'])
  const { UsageLedger } = await import(join(folder, 'usage/ledger.ts'))
  t.type(UsageLedger, 'function', 'it can be loaded')
  process.removeAllListeners('SIGUSR2')
  const { compiled } = await import(join(tree, 'scripts', 'compile.mjs'))
  const { file } = await compiled('main.ts')
  const parts = globSync('*.{js,cjs}', { cwd: dirname(file) })
  t.ok(
    parts.some((part) => readFileSync(join(dirname(file), part), 'utf8').includes('SIGUSR2')),
    'it can be compiled',
  )
})
