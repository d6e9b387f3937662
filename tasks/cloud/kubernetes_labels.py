"""Labels and annotations by which JobSet, Job, Kueue and GKE say what an object is and what it belongs to: their names.

Ours are in labels.py, and those of accelerators with the accelerators.
"""

from __future__ import annotations

JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
JOBSET_UID = "jobset.sigs.k8s.io/jobset-uid"
RESTART_ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"
REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_INDEX = "jobset.sigs.k8s.io/job-index"
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
"""Annotation of a JobSet, or of one replicated job: a label of nodes of which each job has a value to itself."""

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
JOB_NAME = "batch.kubernetes.io/job-name"

JOB_UID = "kueue.x-k8s.io/job-uid"
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
LONGEST_RUN = "kueue.x-k8s.io/max-exec-time-seconds"
"""Kueue's own limit, over all starts of a workload; a Job's counts each start anew."""

PLACED_BY_KUEUE = "kueue.x-k8s.io/podset-"
"""So annotations begin by which Kueue chooses the hosts."""

HOST = "kubernetes.io/hostname"
NODE_POOL = "cloud.google.com/gke-nodepool"
