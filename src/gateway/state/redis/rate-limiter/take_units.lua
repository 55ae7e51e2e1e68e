-- Takes units out of one or two buckets, or out of none (GCRA), or says how long to wait for them.
--
-- KEYS own shared
-- ARGV own_us shared_us due
-- Reply {own_missing_us, own_wait_us, shared_missing_us, shared_wait_us}: time until each bucket is full, after this
--   take if it was one, and until it has the units
--
-- A bucket is the moment, by this server's clock, at which it is full again, and holds what comes in a minute. What is
-- more than that is taken from a full one, which then owes the rest. Amounts are times: `none` for a bucket that is not
-- asked, negative where units are given back. `due` is 1 where they are taken even if they are not there.

local minute_us = 60000000
local due = ARGV[3] == '1'
local costs = { tonumber(ARGV[1]), tonumber(ARGV[2]) }

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]

local missing, waits, refused = { 0, 0 }, { 0, 0 }, false
for i = 1, 2 do
  if costs[i] then
    missing[i] = math.max(tonumber(redis.call('GET', KEYS[i]) or 0) - now_us, 0)
    if not due then waits[i] = math.max(missing[i] + math.min(costs[i], minute_us) - minute_us, 0) end
    if waits[i] > 0 then refused = true end
  end
end
if refused then return { missing[1], waits[1], missing[2], waits[2] } end

for i = 1, 2 do
  if costs[i] then
    missing[i] = math.max(missing[i] + costs[i], 0)
    if missing[i] > 0 then
      redis.call('SET', KEYS[i], string.format('%.0f', now_us + missing[i]), 'PX', math.ceil(missing[i] / 1000))
    else
      redis.call('DEL', KEYS[i])
    end
  end
end
return { missing[1], 0, missing[2], 0 }
