import { formatUsd, parseUsd } from '../catalog/money.ts'
import { newId } from '../ids.ts'
import { noteChange } from '../routes/audit-note.ts'
import { CommandFailure, parse, required, UsageError } from './arguments.ts'
import { showCredits } from './credits-show.ts'
import { commandActor, type Desk, environmentOf, servedAt, termsOf, workspaceIn } from './desk.ts'
import { withState } from './state.ts'

const USAGE = `larkway credits <action>

  add --workspace W --usd N [--id ID]
                       book credits; a negative amount takes them back, down to 0. The same ID is booked
                       only once, so that a command whose outcome is not known can be given again
  show [--workspace W] [--json]
                       balance, grants, trial and spending of the month, by key

  --config FILE        default: LARKWAY_CONFIG, else larkway.yaml when it exists, else the demo

The state is that of the servers with the same REDIS_URL, else the file in LARKWAY_DATA; they may run meanwhile.
`

/** Visible ASCII; as long as the `grant_id` of a configuration. */
const GRANT_ID = /^[\x21-\x7e]{1,64}$/

/**
 * `larkway credits`: what workspaces may still spend.
 *
 * @returns the exit code
 * @throws UsageError, CommandFailure, CatalogError
 */
export async function credits(args: readonly string[], desk: Desk): Promise<number> {
  const [action, ...rest] = args
  if (args.includes('--help')) desk.print(USAGE)
  else if (action === 'add') await addCredits(rest, desk)
  else if (action === 'show') await showCredits(rest, desk)
  else throw new UsageError('credits takes add or show')
  return 0
}

const text = { type: 'string' } as const
const FLAGS = { workspace: text, usd: text, id: text, config: text } as const

async function addCredits(args: readonly string[], desk: Desk): Promise<void> {
  const { values } = parse(joined(args), FLAGS, 0)
  const workspace = required('credits add', 'workspace', values.workspace)
  const micros = parseUsd(required('credits add', 'usd', values.usd))
  if (micros === null || micros === 0)
    throw new UsageError('--usd takes USD other than 0, with at most 6 decimals')
  const id = values.id ?? newId('grant')
  if (!GRANT_ID.test(id)) throw new UsageError('--id takes 1 to 64 visible ASCII characters')

  const environment = environmentOf(desk)
  const { booked, creditsMicros } = await withState(environment, async (state) => {
    const { accounts, catalog } = state
    const terms = termsOf(workspaceIn(await servedAt(desk, values.config, state), workspace))
    // Books the grant of the configuration first: what is taken back may be of that.
    const { grants } = await accounts.show(workspace, terms)
    if (!grants.some((grant) => grant.id === id)) {
      const note = { action: 'credits.add', workspace, target: `workspace/${workspace}` }
      const detail = `${formatUsd(micros)} USD as ${id}`
      await noteChange(catalog, { ...note, by: commandActor('credits add'), after: { id, micros }, detail })
    }
    return accounts.addCredits(workspace, { id, micros })
  }).catch((error: unknown) => {
    if (!(error instanceof CommandFailure) || values.id !== undefined) throw error
    throw new CommandFailure(`${error.message}; to try again, add --id ${id}`)
  })
  const what = booked
    ? `booked   ${formatUsd(micros)} USD as ${id}`
    : `${id} was booked before: nothing has changed`
  desk.print(`${what}\ncredits  ${formatUsd(creditsMicros)} USD\n`)
}

/** `--usd -5` as `--usd=-5`: Node's parser takes a word that begins with a dash for a flag. */
function joined(args: readonly string[]): string[] {
  const words: string[] = []
  for (const word of args) {
    if (words.at(-1) === '--usd' && /^-[\d.]/.test(word)) words[words.length - 1] = `--usd=${word}`
    else words.push(word)
  }
  return words
}
