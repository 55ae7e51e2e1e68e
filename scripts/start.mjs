import { main } from './install.mjs'
import { prepare, run } from './runtime.mjs'

// `npm start`: the server. `npm start -- --processes 2`: several of them.
await main(async () =>
  run(await prepare(), 'src/cli.ts', ['serve', ...process.argv.slice(2)], { ownGroup: true }),
)
