-- Looks through some jobs of a partition, the newest first.
--
-- KEYS partition never
-- ARGV workspace kind status limit offset
-- Reply {next, job, …}: each job as fields and values; `next` is the offset to go on from, -1 at the end
--
-- An empty workspace, kind or status is any.

local SEEN_AT_ONCE = 500

local limit, offset = tonumber(ARGV[4]), tonumber(ARGV[5])
local function fits(asked, value) return asked == '' or asked == value end

local ids = redis.call('ZREVRANGE', key('index'), offset, offset + SEEN_AT_ONCE - 1)
local jobs = { #ids == SEEN_AT_ONCE and offset + SEEN_AT_ONCE or -1 }
for _, id in ipairs(ids) do
  local job = read_job(id)
  local is_asked = job and not is_gone(job) and fits(ARGV[1], job.workspace) and fits(ARGV[2], job.kind)
    and fits(ARGV[3], job.status)
  if is_asked and #jobs <= limit then table.insert(jobs, show_job(id)) end
end
return jobs
