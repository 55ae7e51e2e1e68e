import { CommandFailure, parse, UsageError } from './arguments.ts'
import { type CliContext, EXIT_HELP, environmentOf, STATE_HELP, withState } from './context.ts'

const USAGE = `larkway state <action>

What Redis held, should it have lost that.

  accept-loss          go on with a Redis that has lost everything: grants of credits and trials begin anew, and what
                       was spent is forgotten. Refused where no node misses anything

Restore a backup instead if there is one: nodes notice that by themselves, and nothing needs to be accepted. Until
either is done, calls on credits or a trial are refused.

${STATE_HELP}

${EXIT_HELP}
`

/**
 * `larkway state`: what an operator decides about the state as a whole.
 *
 * @returns the exit code
 * @throws UsageError, CommandFailure
 */
export async function state(args: readonly string[], context: CliContext): Promise<number> {
  const [action, ...rest] = args
  if (args.includes('--help')) context.print(USAGE)
  else if (action === 'accept-loss') await acceptLoss(rest, context)
  else throw new UsageError('state takes accept-loss; see larkway state --help')
  return 0
}

async function acceptLoss(args: readonly string[], context: CliContext): Promise<void> {
  parse(args, {}, 0)
  const accepted = await withState(environmentOf(context), async ({ memory }) => {
    if (memory === null) throw new CommandFailure('the state is a file, which is lost with its data folder')
    return memory.acceptLoss()
  })
  if (accepted === null) throw new CommandFailure('no node misses anything: there is no loss to accept')
  context.print(`accepted the loss of ${accepted}: nodes go on within seconds, and book grants again\n`)
}
