import { compiled } from './compile.mjs'
import { main } from './install.mjs'
import { prepare, run } from './runtime.mjs'

// `npm start`: the server. `npm start -- --processes 2`: several of them.
await main(async () => {
  const node = await prepare({ onlyRuns: true })
  run(node, await compiled('cli.ts', node), ['serve', ...process.argv.slice(2)], { ownGroup: true })
})
