#!/bin/sh
# Turns new namespaces into a bare machine. Files outside its disk are kept in memory and vanish with the namespaces.
# Arguments: the directory that is the disk, the machine's name, and the directories that are on the disk.
set -eu
disk=$1 name=$2
shift 2
mount --make-rshared /
mount -t tmpfs -o mode=755 tmpfs /run
for above in /var/lib /var/log; do
  mkdir -p "/run/above$above/upper" "/run/above$above/work"
  mount -t overlay overlay -o "lowerdir=$above,upperdir=/run/above$above/upper,workdir=/run/above$above/work" "$above"
done
for folder; do
  mkdir -p "$disk$folder" "$folder"
  mount --bind "$disk$folder" "$folder"
  mount --make-rshared "$folder"
done
mkdir -p /run/lock /run/netns
hostname "$name"
echo $$ >"$disk/booted"
exec tini -s -g -- sleep infinity
