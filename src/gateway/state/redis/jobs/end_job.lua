-- Ends a claim of a job: for good, or the job goes back to the queue.
--
-- KEYS partition never
-- ARGV id fence ending delay_ms counter result error facts
--      keep_transcription_ms keep_queue_ms keep_dead_ms
-- Reply {is_now, job}: the job as fields and values, empty when the claim was not in force any more; `is_now` = 1: this
-- has ended it, and the result that came with the end is left out
--
-- `ending` is the status that the worker asks for, `counter` the field of the job that counts a return to the queue;
-- what is empty is not there. The job keeps its last ending with the fence, so that an ending whose answer was lost is
-- known when it is sent again. A job whose cancellation was requested is cancelled instead of queued or succeeded: the
-- worker need not ask for that before.

local id, ending, counter = ARGV[1], ARGV[3], ARGV[5]
local mark = ending .. ' ' .. ARGV[2]

local job = read_job(id)
if not job then return { 0, {} } end
if job.ending == mark then return { 0, show_job(id) } end
if job.status ~= 'processing' or job.fence ~= tonumber(ARGV[2]) then return { 0, {} } end

stop_running(job)
local status = ending
if job.is_cancelled and (ending == 'queued' or ending == 'succeeded') then status = 'cancelled' end
if status == 'queued' then
  change(job, 'queued', 'ending', mark, 'strays', '0')
  if counter ~= '' then redis.call('HINCRBY', key('job', id), counter, 1) end
  queue(job, tonumber(ARGV[4]))
else
  local fields = { 'ending', mark }
  for i, field in ipairs({ 'result', 'error', 'facts' }) do
    local value = ARGV[5 + i]
    if value ~= '' and not (field == 'result' and status == 'cancelled') then
      table.insert(fields, field)
      table.insert(fields, value)
    end
  end
  finish(job, status, retention(9), unpack(fields))
end
-- It may be long, and the worker has it.
local shown = show_job(id)
for i = 1, #shown, 2 do
  if shown[i] == 'result' then
    table.remove(shown, i + 1)
    table.remove(shown, i)
    break
  end
end
return { 1, shown }
