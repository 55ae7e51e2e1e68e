/** Messages to a load generator over its channel, and from it. */
export interface TaskMessage<Input> {
  readonly id: number
  readonly input: Input
}
export type TaskReply<Output> = { readonly id: number } & (
  | { readonly output: Output }
  | { readonly error: string }
)

/** Makes this process do tasks for the one that started it, one after the other, until the channel closes. */
export function answerTasks<Input, Output>(run: (input: Input) => Promise<Output>): void {
  const send = (reply: TaskReply<Output>) => process.send?.(reply)
  process.on('message', async ({ id, input }: TaskMessage<Input>) => {
    try {
      send({ id, output: await run(input) })
    } catch (error) {
      send({ id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) })
    }
  })
  process.on('disconnect', () => process.exit())
}
