import { type Static, Type } from 'typebox'
import { formatUsd, parseUsd } from '../../../catalog/money.ts'
import { invalid } from '../../../inbound/refusals.ts'
import type { EdgeRoute } from '../../../inbound/server.ts'
import { noteChange } from '../../audit-note.ts'
import type { ConsoleDesk } from '../desk.ts'
import { type ConsoleCall, consoleEndpoint } from '../endpoint.ts'
import { termsOf } from './account.ts'
import { workspaceAnswer } from './workspaces.ts'

const PATH = '/workspaces/:workspace/credits'

const Body = Type.Object({
  amount_usd: Type.Number({ description: 'what is booked; a negative amount takes credits back, down to 0' }),
  grant_id: Type.String({
    pattern: '^[\\x21-\\x7e]{1,64}$',
    description: '1 to 64 visible ASCII characters',
  }),
})

/** Books credits. The same id is booked once, so that a booking whose answer was lost can be sent again. */
export function creditsEndpoint(desk: ConsoleDesk): EdgeRoute {
  return consoleEndpoint(desk, 'POST', PATH, { body: Body, role: 'operator' }, addCredits)
}

/** @throws GatewayError INVALID_REQUEST, also for an id under which another amount was booked */
async function addCredits(call: ConsoleCall<typeof PATH, Static<typeof Body>, unknown>) {
  const { desk, viewer, body } = call
  const { workspace } = call.params
  const micros = parseUsd(String(body.amount_usd))
  if (micros === null || micros === 0)
    throw invalid('amount_usd: must be USD other than 0, with at most 6 decimals', 'amount_usd')
  const { state } = desk.doors.services
  // Books the grant of the configuration first: what is taken back may be of that.
  const { grants } = await state.accounts.show(workspace, termsOf(desk, workspace))
  const id = body.grant_id
  const booked = grants.find((grant) => grant.id === id)
  if (booked !== undefined && !isBookingOf(booked.micros, micros))
    throw invalid(`grant_id: ${formatUsd(booked.micros)} USD are booked under it`, 'grant_id')
  if (booked === undefined) {
    const detail = `${formatUsd(micros)} USD as ${id}`
    const note = { action: 'credits.add', workspace, target: `workspace/${workspace}`, by: viewer.actor }
    await noteChange(desk.records, { ...note, after: { id, micros }, detail })
    await state.accounts.addCredits(workspace, { id, micros })
  }
  return workspaceAnswer(call, workspace)
}

/** Whether an amount may be what was booked of another one: what was taken back is no more than there was. */
function isBookingOf(bookedMicros: number, micros: number): boolean {
  return bookedMicros === micros || (bookedMicros <= 0 && bookedMicros > micros)
}
